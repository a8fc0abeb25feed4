-- The exporters that measured a run are stored with its summary, since an imported run has no targets to look them up.
alter table runs add column listeners text[] not null default '{}';
