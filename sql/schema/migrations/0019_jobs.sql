-- What was given to an executor that runs workloads on hosts of its choice, and how it goes on there. Recorded before it is
-- asked for, under the name that it carries there: who died in between finds it by that.
create table jobs (
    job           text primary key,        -- the name that we gave it
    executor      text not null,
    native_id     text,                    -- its id there, as soon as it was told
    workload_id   integer not null references workloads on delete cascade,
    state         text not null default 'pending' check (state in ('pending', 'running', 'ended')),
    reason        text,                    -- why it waits, or has ended
    failure       text,                    -- why it could not begin its runs, as its own process says
    host          text,
    submitted_at  timestamptz not null default now(),
    ended_at      timestamptz
);
create index on jobs (workload_id);

alter table runs add column job text references jobs on delete set null;
-- Why somebody wants the run to be ended, who need not be on its host.
alter table runs add column stop_reason text;
create index on runs (job) where job is not null;

-- What the executor's own accounting says of a run, beside what was measured.
create table accounting (
    run_id          text primary key references runs on delete cascade,
    step            text not null,
    state           text not null,
    elapsed_seconds double precision,
    cpu_seconds     double precision,
    max_rss_bytes   double precision,
    energy_joules   double precision
);
