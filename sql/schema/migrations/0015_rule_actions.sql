-- What a row of an experiment file wants to be done when rules fire: names of actions by rule.
alter table runs add column actions jsonb not null default '{}';

-- Whether rules have been asked about the whole of a run, after it had ended. What ended before this is for
-- `bench rules replay`.
alter table runs add column judged boolean not null default false;
update runs set judged = true where ended_at is not null;
create index runs_to_be_judged on runs (host) where not judged;

-- What was done about a rule's firing, and with which evidence. Not begun is what is still to be done; begun and not ended
-- is what a process was at when it vanished, which may have been done or not, and is not done again.
create table rule_actions (
    run_id     text not null references runs on delete cascade,
    rule       text not null,
    started_at timestamptz not null,
    action     text not null,
    severity   text not null,
    evidence   jsonb not null,
    asked_at   timestamptz not null default now(),
    begun_at   timestamptz,
    ended_at   timestamptz,
    outcome    text check (outcome in ('done', 'failed', 'needless')),
    detail     text,
    primary key (run_id, rule, started_at, action)
);
create index rule_actions_to_be_done on rule_actions (asked_at) where begun_at is null;
