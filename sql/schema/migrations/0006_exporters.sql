-- Exporters that a run's row chooses, each with its scrape interval, how collectors follow these choices, and what exporters cost.

alter table bench.runs
    -- Seconds between scrapes by exporter, null for those of the configuration. Null where all exporters measure the run.
    add column exporters jsonb check (jsonb_typeof(exporters) = 'object'),
    -- Seconds between scrapes by exporter that measured it, stored with the summary.
    add column intervals jsonb not null default '{}' check (jsonb_typeof(intervals) = 'object');
create index runs_measured on bench.runs (lease_until) where status in ('pending', 'running');
create index runs_with_exporters on bench.runs (host, started_at) where exporters is not null;

drop function if exists bench_internal.measuring_listeners(text[]);  -- its columns change

-- Choices that the collector of a target follows. A scheduler releases its runs once these are among them.
create table bench_internal.followed_choices (
    target_id integer primary key references bench.targets on delete cascade,
    collector text not null,               -- source of its batches
    interval  double precision,            -- seconds between scrapes; 0 for none; null for the configured ones
    run_ids   text[] not null              -- runs of its host at the collector's last look
);

-- What exporters cost a training on a host, as `bench calibrate` found.
create table bench.calibrations (
    host          text not null,
    command       text not null,
    listeners     text not null,           -- as in an experiment file
    exporters     jsonb not null check (jsonb_typeof(exporters) = 'object'),  -- seconds between scrapes by exporter
    repetitions   integer not null,
    slowdown      double precision not null,
    low           double precision not null,
    high          double precision not null,
    cpu_share     double precision not null,
    memory_bytes  double precision not null,
    calibrated_at timestamptz not null default now(),
    primary key (host, command, listeners)
);
