-- The dimension tables: who ran what, where, and what was measured. Samples follow in 0002, in two flavours.

create table experiments (
    experiment_id integer primary key,
    name          text not null,
    source        text not null,           -- the file that owns the experiment
    created_at    timestamptz not null default now()
);

create table workloads (
    workload_id   integer generated always as identity primary key,
    experiment_id integer not null references experiments on delete cascade,
    workload      integer not null,
    status        text not null default '',
    started_at    timestamptz,
    ended_at      timestamptz,
    unique (experiment_id, workload)
);

create table runs (
    run_id        text primary key check (run_id ~ '^[0-9a-f]{32}$'),
    mlflow_run_id text,
    workload_id   integer not null references workloads on delete cascade,
    position      integer not null,
    attempt       integer not null,
    name          text not null,
    owner         text not null,
    status        text not null default 'pending'
                  check (status in ('pending', 'running', 'finished', 'failed', 'stopped', 'timeout')),
    started_at    timestamptz,
    ended_at      timestamptz check (ended_at >= started_at),
    exit_code     integer,
    reason        text,
    command       text not null,
    environment   text not null,
    collocation   text not null,
    devices       text not null default '',
    params        jsonb not null default '{}',
    host          text not null,
    keep          boolean not null default false,
    fingerprint   text not null,           -- what makes a row the same row again
    lease_until   timestamptz,             -- a running run whose lease is over has lost its supervisor
    summarised    boolean not null default false,   -- its summary is stored, and no sample has come or moved since
    unique (workload_id, position, attempt)
);
create index on runs (mlflow_run_id);
create index on runs (lease_until) where status = 'running';

create table placements (
    run_id          text not null references runs on delete cascade,
    host            text not null,
    gpu_uuid        text,
    gpu_instance_id integer,
    mig_uuid        text,
    root_pid        integer,
    started_at      timestamptz not null,
    ended_at        timestamptz,
    unique nulls not distinct (run_id, host, gpu_uuid, gpu_instance_id)
);
create index on placements (host, started_at);
create index on placements (gpu_uuid, started_at) where gpu_uuid is not null;

create table places (
    place_id        integer generated always as identity primary key,
    kind            text not null check (kind in ('host', 'gpu', 'instance', 'process')),
    host            text not null,
    gpu_uuid        text,
    gpu_instance_id integer,
    run_id          text,                  -- whose process tree; no foreign key: samples may come before the run's row
    unique nulls not distinct (kind, host, gpu_uuid, gpu_instance_id, run_id)
);
create index on places (run_id) where run_id is not null;

create table run_sets (
    runset_id  integer not null check (runset_id > 0),   -- 0 is nobody and has no rows
    place_id   integer not null references places on delete cascade,
    run_id     text not null references runs on delete cascade,
    scope      text not null check (scope in ('process', 'instance', 'device', 'host')),
    started_at timestamptz not null,
    ended_at   timestamptz,
    primary key (runset_id, run_id)
);
create sequence runset_ids as integer owned by run_sets.runset_id;
create index on run_sets (run_id);
create index on run_sets (place_id, started_at);

-- Places whose run sets changed from a time on: samples that were written beyond it before the change carry the old
-- tag, until a collector has been there. Rows, so that no change is lost while every collector is away.
create table retags (
    retag_id  bigint generated always as identity primary key,
    place_id  integer not null references places on delete cascade,
    from_time timestamptz not null
);

-- Counts the changes of run sets. A writer of samples holds the row while it tags and commits, so that no change comes
-- between: what it writes carries the tags of the sets as they are.
create table tag_version (version bigint not null);
insert into tag_version values (0);

create table metrics (
    metric_id  integer generated always as identity primary key,
    metric     text not null,
    match      jsonb not null default '{}',
    quantity   text not null,
    unit       text not null,
    scale      double precision not null default 1,
    kind       text not null check (kind in ('gauge', 'counter')),
    combine    text not null check (combine in ('sum', 'mean', 'max')),
    preference integer not null default 1,
    help       text not null default '',
    unique (metric, match)
);

create table targets (
    target_id integer generated always as identity primary key,
    host      text not null,
    listener  text not null,
    instance  text not null default '',    -- host:port; empty for a listener of our own, whose port may change
    url       text not null,
    last_seen timestamptz,
    up        boolean not null default false,
    unique (host, listener, instance)
);

create table series (
    series_id integer generated always as identity primary key,
    target_id integer not null references targets on delete cascade,
    metric    text not null,
    metric_id integer references metrics on delete set null,
    quantity  text not null,
    place_id  integer not null references places,
    host      text not null,
    device    text,
    labels    jsonb not null
);
-- By digest: an index cannot hold labels of more than some 2,700 bytes.
create unique index series_identity on series (target_id, metric, md5(labels::text));
create index on series (place_id, quantity);

create table batches (
    source     text not null,
    batch      bigint not null,
    written_at timestamptz not null default now(),
    primary key (source, batch)
);

create table software_metrics (
    run_id  text not null references runs on delete cascade,
    key     text not null,
    step    bigint not null,
    time    timestamptz not null,
    elapsed double precision not null,
    value   double precision,
    unique nulls not distinct (run_id, key, step, time, value)
);

create table stored_summaries (
    run_id   text not null references runs on delete cascade,
    quantity text not null,
    scope    text not null,
    metric   text,
    device   text,
    n        bigint not null,
    seconds  double precision,
    mean     double precision,
    min      double precision,
    max      double precision,
    p50      double precision,
    p95      double precision,
    total    double precision,
    unique nulls not distinct (run_id, quantity, scope, metric, device)
);

create table spans (
    run_id     text not null references runs on delete cascade,
    span_id    text not null,
    parent_id  text,
    name       text not null,
    kind       text not null check (kind in ('phase', 'step', 'epoch', 'span')),
    step       bigint,
    started_at timestamptz not null,
    ended_at   timestamptz,
    pid        integer,
    thread     text,
    primary key (run_id, span_id)
);

create table rule_firings (
    run_id     text not null references runs on delete cascade,
    rule       text not null,
    started_at timestamptz not null,
    ended_at   timestamptz,
    severity   text not null,
    evidence   jsonb not null default '{}',
    primary key (run_id, rule, started_at)
);
