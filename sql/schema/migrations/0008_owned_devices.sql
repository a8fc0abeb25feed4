-- What a scheduler makes for runs on a host, recorded before it is made: whatever becomes of the scheduler, somebody can
-- find it and remove it, and nothing else is ever removed.
create table owned_devices (
    owned_id        bigint generated always as identity primary key,
    kind            text not null check (kind in ('instance', 'daemon')),
    host            text not null,
    boot_id         text not null,             -- of that host: none of it outlives a restart
    home            text not null,             -- BENCH_HOME of who made it, where the folders of its runs are
    holder_pid      integer not null,          -- the scheduler that removes it, with its start in seconds since the boot
    holder_created  double precision not null,
    simulated       text not null,             -- BENCH_SIMULATE of who made it; empty for real GPUs
    run_ids         text[] not null,           -- no foreign key: it is made before its runs are recorded
    gpu_uuids       text[] not null,
    profile         text,                      -- of an instance: where it is to be
    start           integer,
    gpu_instance_id integer,                   -- and what it was given, once it is there
    mig_uuid        text,
    folder          text,                      -- of a daemon
    made_at         timestamptz not null default now()
);
create index on owned_devices (host);
