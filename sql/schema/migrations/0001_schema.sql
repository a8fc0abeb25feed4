-- Tables of experiments, runs, devices and metrics. Samples follow in 0002, in two flavours. Tables of the contract are in
-- `bench`, all others in `bench_internal`.

create table experiments (
    experiment_id integer primary key,
    name          text not null,
    source        text not null,           -- the file that owns the experiment
    created_at    timestamptz not null default now(),
    stop_reason   text                     -- set to stop the schedule; the next schedule resets it
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

-- File of each workload, and its number there. Rows of different files never share a workload.
create table bench_internal.file_workloads (
    experiment_id integer not null references experiments on delete cascade,
    source        text not null,           -- the file
    written       integer not null,        -- number of the workload in the file
    workload      integer not null,        -- number in the experiment
    primary key (experiment_id, source, written),
    unique (experiment_id, workload)
);

-- Jobs of executors, such as Slurm. A scheduler inserts the row before it submits the job: after a crash in between, its
-- successor finds the job by its name.
create table bench_internal.jobs (
    job          text primary key,         -- name of the job
    executor     text not null,
    native_id    text,                     -- id in the batch system, once known
    workload_id  integer not null references workloads on delete cascade,
    state        text not null default 'pending' check (state in ('pending', 'running', 'ended')),
    reason       text,                     -- reason for waiting or for the end
    failure      text,                     -- error of its own process before the first run
    host         text,
    submitted_at timestamptz not null default now(),
    ended_at     timestamptz
);
create index on bench_internal.jobs (workload_id);

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
    simulated     boolean not null default false,   -- placed on simulated GPUs
    profilers     text not null default '',         -- joined by +; profilers change the times
    actions       jsonb not null default '{}',      -- actions requested by its row, by rule
    keep          boolean not null default false,
    note          text,
    fingerprint   text not null,           -- identifies the same row in a later version of the file
    job           text references bench_internal.jobs on delete set null,
    stop_reason   text,                    -- set to stop the run, from any host
    lease_until   timestamptz,             -- past for a running run: the supervisor is lost
    summarised    boolean not null default false,   -- its summary is stored and up to date
    listeners     text[] not null default '{}',     -- exporters that measured it, stored with the summary: a capsule has no targets
    evaluated     boolean not null default false,   -- final evaluation of the rules is done
    unique (workload_id, position, attempt)
);
create index on runs (mlflow_run_id);
create index on runs (lease_until) where status = 'running';
create index on runs (job) where job is not null;
create index runs_to_be_evaluated on runs (host) where not evaluated;
create index runs_by_owner on runs (owner);  -- for each query of bench_reader_own

-- `origin` is the capsule of an imported row, else empty. Two databases may have hosts of the same name, and local runs must
-- not change imported run sets.
create table placements (
    run_id          text not null references runs on delete cascade,
    host            text not null,
    gpu_uuid        text,
    gpu_instance_id integer,
    mig_uuid        text,
    root_pid        integer,
    started_at      timestamptz not null,
    ended_at        timestamptz,
    origin          text not null default '',
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
    run_id          text,                  -- of a process tree; no foreign key: samples may precede the run's row
    origin          text not null default '',   -- as in placements
    unique nulls not distinct (kind, host, gpu_uuid, gpu_instance_id, run_id, origin)
);
create index on places (run_id) where run_id is not null;

create table run_sets (
    runset_id  integer not null check (runset_id > 0),   -- set 0 means no run and has no rows
    place_id   integer not null references places on delete cascade,
    run_id     text not null references runs on delete cascade,
    scope      text not null check (scope in ('process', 'instance', 'device', 'host')),
    started_at timestamptz not null,
    ended_at   timestamptz,
    others     integer not null default 0,   -- further runs of the set in the database of origin
    primary key (runset_id, run_id)
);
create sequence runset_ids as integer owned by run_sets.runset_id;
create index on run_sets (run_id);
create index on run_sets (place_id, started_at);

-- Resources with changed run sets. Samples from `from_time` on have the old tag until a collector retags them. The queue
-- survives times without a collector.
create table bench_internal.retag_queue (
    retag_id  bigint generated always as identity primary key,
    place_id  integer not null references places on delete cascade,
    from_time timestamptz not null
);

-- Number of changes of run sets. A writer locks the row while it tags and commits samples, so that their tags match the sets.
create table bench_internal.tag_version (version bigint not null);
insert into bench_internal.tag_version values (0);

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
    whole_device boolean not null default false,  -- dcgm-exporter repeats it on each MIG instance, and it counts once
    help       text not null default '',
    origin     text not null default ''    -- capsule for whose series it counts; else empty
);
create unique index metrics_of_ours on metrics (metric, match) where origin = '';

create table targets (
    target_id         integer generated always as identity primary key,
    host              text not null,
    listener          text not null,
    instance          text not null default '',  -- host:port; empty for our exporters, whose port may change
    url               text not null,
    last_seen         timestamptz,
    up                boolean not null default false,
    -- By the database's clock, as leases are: clocks of collectors may be off by minutes.
    down_since        timestamptz,
    last_error        text,                      -- error of the last scrape; null if it succeeded
    -- The host of the labels takes precedence over that of lines, which in Kubernetes is a pod.
    says_host         boolean not null default false,
    collector         text,                      -- source of its batches; owner of the target during the lease
    collector_host    text,
    collector_pid     integer,
    lease_until       timestamptz,
    held_since        timestamptz,               -- samples of other collectors from then on are duplicates
    clock_offset      double precision,          -- seconds by which the host's clock is ahead of the collector's
    clock_uncertainty double precision,          -- seconds; maximum error of the offset
    unique (host, listener, instance)
);

create table series (
    series_id integer generated always as identity primary key,
    target_id integer references targets on delete cascade,   -- null for an imported series
    metric    text not null,
    metric_id integer references metrics on delete set null,
    quantity  text not null,
    place_id  integer not null references places,
    host      text not null,
    device    text,
    labels    jsonb not null,
    counts    boolean                      -- a counter, by its source: its increase is spread over time
);
-- By digest: an index cannot hold labels of more than some 2,700 bytes.
create unique index series_identity on series (target_id, metric, md5(labels::text));
create index on series (place_id, quantity);

-- Duplicate series of a run: another target exposes the same metric of the same resource and covers more of the run. Stored
-- with the summary.
create table bench_internal.stored_duplicates (
    run_id    text not null references runs on delete cascade,
    series_id integer not null references series on delete cascade,
    primary key (run_id, series_id)
);

create table batches (
    source     text not null,
    batch      bigint not null,
    written_at timestamptz not null default now(),
    primary key (source, batch)
);

-- Live collectors. Collectors with the same targets share them.
create table bench_internal.collectors (
    source      text primary key,          -- of its batches
    host        text not null,
    pid         integer not null,
    targets     text not null,             -- digest of its targets
    lease_until timestamptz not null
);

-- Exporters that hosts have announced.
create table bench_internal.announcements (
    host         text not null,
    listener     text not null,
    url          text not null,                        -- for other hosts; on 127.0.0.1 for its own host
    announced_at timestamptz not null default now(),   -- the first of one host and exporter counts
    renewed_at   timestamptz not null default now(),
    primary key (host, listener, url)
);

-- Provisioned devices. A scheduler inserts the row before it creates the device: after a crash, its successor removes these
-- devices and no others.
create table bench_internal.provisioned_devices (
    device_id        bigint generated always as identity primary key,
    kind            text not null check (kind in ('instance', 'daemon')),
    host            text not null,
    boot_id         text not null,         -- of the host: no device outlives a restart
    home            text not null,         -- BENCH_HOME of its scheduler
    holder_pid      integer not null,      -- scheduler that removes it; its start in seconds since boot
    holder_created  double precision not null,
    simulated       text not null,         -- BENCH_SIMULATE of its scheduler; empty for real GPUs
    run_ids         text[] not null,       -- no foreign key: the device precedes its runs
    gpu_uuids       text[] not null,
    profile         text,                  -- requested placement of an instance
    start           integer,
    gpu_instance_id integer,               -- id of the created instance
    mig_uuid        text,
    folder          text,                  -- of a daemon
    made_at         timestamptz not null default now()
);
create index on bench_internal.provisioned_devices (host);

create table software_metrics (
    run_id  text not null references runs on delete cascade,
    key     text not null,
    step    bigint not null,
    time    timestamptz not null,
    elapsed double precision not null,
    value   double precision,
    unique nulls not distinct (run_id, key, step, time, value)
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
-- For the newest phase, epoch and step of a running run, among up to a million steps.
create index spans_by_kind on spans (run_id, kind, started_at);

create table bench_internal.stored_summaries (
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
    seen     double precision,             -- seconds without gaps
    unique nulls not distinct (run_id, quantity, scope, metric, device)
);

-- Runs whose current summary MLflow has. A new summary deletes the row.
create table bench_internal.tracked_summaries (
    run_id     text primary key references runs on delete cascade,
    tracked_at timestamptz not null default now()
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

-- Actions on firings. An action without a start is pending. An action without an end was interrupted, and is not retried.
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

-- Highlights of a run's curves, written after its end.
create table highlights (
    run_id     text not null references runs on delete cascade,
    started_at timestamptz not null,
    ended_at   timestamptz not null,
    kind       text not null,
    text       text not null,
    weight     double precision not null
);
create index on highlights (run_id, started_at);

-- Accounting of a run by its batch system.
create table accounting (
    run_id          text primary key references runs on delete cascade,
    step            text not null,
    state           text not null,
    elapsed_seconds double precision,
    cpu_seconds     double precision,
    max_rss_bytes   double precision,
    energy_joules   double precision
);

-- Raw samples are kept for ever, unless `keep_raw` is set. Below the cutoff only aggregates and protected runs' samples remain.
create table bench_internal.retention (
    keep_raw   interval check (keep_raw >= interval '1 day'),
    raw_cutoff timestamptz not null default '-infinity'
);
insert into bench_internal.retention default values;
