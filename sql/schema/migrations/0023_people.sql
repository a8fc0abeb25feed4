-- Who sees their own runs alone is asked for at each question.
create index runs_by_owner on runs (owner);

-- What a person has to say of a run.
alter table runs add column note text;
