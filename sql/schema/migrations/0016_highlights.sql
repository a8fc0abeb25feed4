-- What a run's curves say in a few lines, written when it has ended.
create table highlights (
    run_id     text not null references runs on delete cascade,
    started_at timestamptz not null,
    ended_at   timestamptz not null,
    kind       text not null,
    text       text not null,
    weight     double precision not null
);
create index on highlights (run_id, started_at);
