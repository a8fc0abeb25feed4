-- Profiles of runs: what their kernels, operators and functions took, from the reports of profilers.

create table bench.profiles (
    run_id     text not null references bench.runs on delete cascade,
    profiler   text not null,
    number     integer not null,     -- 1 for that of the whole run; those of a live run follow
    started_at timestamptz,
    ended_at   timestamptz,
    rate       double precision,     -- samples per second; null where every call is recorded
    problem    text,                 -- why the report could not be read
    primary key (run_id, profiler, number)
);

create table bench.profile_entries (
    run_id   text not null,
    profiler text not null,
    number   integer not null,
    kind     text not null,
    name     text not null,
    phase    text not null,
    calls    bigint,
    total    double precision not null,
    self     double precision not null,
    share    double precision not null,
    foreign key (run_id, profiler, number) references bench.profiles on delete cascade
);
create index profile_entries_of_run on bench.profile_entries (run_id, profiler, number);

create table bench.profile_stacks (
    run_id   text not null,
    profiler text not null,
    number   integer not null,
    kind     text not null,
    frames   text[] not null,        -- the outermost first
    calls    bigint,
    self     double precision not null,
    foreign key (run_id, profiler, number) references bench.profiles on delete cascade
);
create index profile_stacks_of_run on bench.profile_stacks (run_id, profiler, number);
