-- Tables of experiments, runs, devices and metrics. Samples follow in 0002, in two flavours. Tables of the contract are in
-- `bench`, all others in `bench_internal`.

create table experiments (
    experiment_id integer primary key,
    name          text not null,
    source        text not null,           -- the file that owns the experiment
    created_at    timestamptz not null default now(),
    stop_reason   text                     -- set: the schedule is asked to end; null again when it is scheduled anew
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

-- The file of each workload, and its number there: rows of several files in one experiment never share a workload.
create table bench_internal.file_workloads (
    experiment_id integer not null references experiments on delete cascade,
    source        text not null,           -- the file
    written       integer not null,        -- the workload's number in the file
    workload      integer not null,        -- and in the experiment
    primary key (experiment_id, source, written),
    unique (experiment_id, workload)
);

-- Jobs of executors, such as Slurm's. A row is written before the job is submitted, under the name that the job carries: a
-- scheduler that died in between finds it by that name.
create table bench_internal.jobs (
    job          text primary key,         -- the name that we gave it
    executor     text not null,
    native_id    text,                     -- its id there, as soon as it is known
    workload_id  integer not null references workloads on delete cascade,
    state        text not null default 'pending' check (state in ('pending', 'running', 'ended')),
    reason       text,                     -- why it waits, or has ended
    failure      text,                     -- why it could not begin its runs, as its own process reports
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
    profilers     text not null default '',         -- joined by +: its times are not those of a plain run
    actions       jsonb not null default '{}',      -- what its row wants to be done when rules fire: names of actions by rule
    keep          boolean not null default false,
    note          text,
    fingerprint   text not null,           -- what makes a row the same row again
    job           text references bench_internal.jobs on delete set null,
    stop_reason   text,                    -- set: the run is asked to end, from any host
    lease_until   timestamptz,             -- a running run whose lease is over has lost its supervisor
    summarised    boolean not null default false,   -- its summary is stored, and no sample has come or moved since
    evaluated     boolean not null default false,   -- the rules have been evaluated over the whole run, after its end
    unique (workload_id, position, attempt)
);
create index on runs (mlflow_run_id);
create index on runs (lease_until) where status = 'running';
create index on runs (job) where job is not null;
create index runs_to_be_evaluated on runs (host) where not evaluated;
create index runs_by_owner on runs (owner);  -- each query of bench_reader_own begins there

-- An imported row names the capsule as its `origin`: a host may be in two databases under one name, and what runs here must
-- not move the run sets of what ran elsewhere. `origin` is empty for what is measured here.
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
    run_id          text,                  -- whose process tree; no foreign key: samples may come before the run's row
    origin          text not null default '',   -- as in placements
    unique nulls not distinct (kind, host, gpu_uuid, gpu_instance_id, run_id, origin)
);
create index on places (run_id) where run_id is not null;

create table run_sets (
    runset_id  integer not null check (runset_id > 0),   -- 0 is no run and has no rows
    place_id   integer not null references places on delete cascade,
    run_id     text not null references runs on delete cascade,
    scope      text not null check (scope in ('process', 'instance', 'device', 'host')),
    started_at timestamptz not null,
    ended_at   timestamptz,
    others     integer not null default 0,   -- how many more were in the set where it was imported from
    primary key (runset_id, run_id)
);
create sequence runset_ids as integer owned by run_sets.runset_id;
create index on run_sets (run_id);
create index on run_sets (place_id, started_at);

-- Places whose run sets changed from a time on: samples that were written beyond it before the change carry the old
-- tag, until a collector has corrected them. Rows, so that no change is lost while every collector is away.
create table bench_internal.retag_queue (
    retag_id  bigint generated always as identity primary key,
    place_id  integer not null references places on delete cascade,
    from_time timestamptz not null
);

-- Counts the changes of run sets. A writer of samples holds the row while it tags and commits, so that no change comes
-- between: what it writes carries the tags of the sets as they are.
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
    origin     text not null default ''    -- the capsule for whose series alone it counts; empty for ours
);
create unique index metrics_of_ours on metrics (metric, match) where origin = '';

create table targets (
    target_id         integer generated always as identity primary key,
    host              text not null,
    listener          text not null,
    instance          text not null default '',  -- host:port; empty for an exporter of our own, whose port may change
    url               text not null,
    last_seen         timestamptz,
    up                boolean not null default false,
    -- By the database's clock, as leases: those of collectors may be off by minutes.
    down_since        timestamptz,
    last_error        text,                      -- why the last scrape failed; null where it did not
    -- The labels name the host, and go before its lines: in Kubernetes these name a pod.
    says_host         boolean not null default false,
    collector         text,                      -- the source of its batches; keeps the target while the lease lasts
    collector_host    text,
    collector_pid     integer,
    lease_until       timestamptz,
    held_since        timestamptz,               -- by this collector: samples of another one from then on are duplicates
    clock_offset      double precision,          -- seconds by which the host's clock is ahead of the collector's
    clock_uncertainty double precision,          -- seconds; the truth lies within the offset, more or less this
    unique (host, listener, instance)
);

create table series (
    series_id integer generated always as identity primary key,
    target_id integer references targets on delete cascade,   -- null: imported, so nothing here scrapes it
    metric    text not null,
    metric_id integer references metrics on delete set null,
    quantity  text not null,
    place_id  integer not null references places,
    host      text not null,
    device    text,
    labels    jsonb not null,
    counts    boolean                      -- a counter, as its source says: part of a sample's time has its part of the increase
);
-- By digest: an index cannot hold labels of more than some 2,700 bytes.
create unique index series_identity on series (target_id, metric, md5(labels::text));
create index on series (place_id, quantity);

-- Series that do not count for a run, since another target gives the same metric of the same place and covers more of it.
-- Written with the run's summary.
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

-- Live collectors: those with the same targets share them.
create table bench_internal.collectors (
    source      text primary key,          -- of its batches
    host        text not null,
    pid         integer not null,
    targets     text not null,             -- a digest of them
    lease_until timestamptz not null
);

-- Exporters that hosts have announced.
create table bench_internal.announcements (
    host         text not null,
    listener     text not null,
    url          text not null,                        -- as other hosts reach it; on 127.0.0.1, as its own host does
    announced_at timestamptz not null default now(),   -- of several of one host and exporter the first counts
    renewed_at   timestamptz not null default now(),
    primary key (host, listener, url)
);

-- Devices that a scheduler provisions for runs, recorded before they are made: if the scheduler dies, its successor finds and
-- removes them, and nothing else is ever removed.
create table bench_internal.provisioned_devices (
    device_id        bigint generated always as identity primary key,
    kind            text not null check (kind in ('instance', 'daemon')),
    host            text not null,
    boot_id         text not null,         -- of that host: no device outlives a restart
    home            text not null,         -- BENCH_HOME of its scheduler, with the folders of its runs
    holder_pid      integer not null,      -- the scheduler that removes it, with its start in seconds since the boot
    holder_created  double precision not null,
    simulated       text not null,         -- BENCH_SIMULATE of its scheduler; empty for real GPUs
    run_ids         text[] not null,       -- no foreign key: it is made before its runs are recorded
    gpu_uuids       text[] not null,
    profile         text,                  -- of an instance: where it is to be
    start           integer,
    gpu_instance_id integer,               -- and what it was given, once it is there
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
-- For a running run's newest phase, epoch and step, among perhaps a million steps.
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
    seen     double precision,             -- the seconds less gaps: the mean of a gap stands for all of it, and shows one moment
    unique nulls not distinct (run_id, quantity, scope, metric, device)
);

-- Runs whose summary MLflow has as it is now. A row goes when the summary is written anew.
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

-- Actions on a rule's firing, with its evidence. Not begun: still to be done. Begun and not ended: a process vanished during
-- it; it may have been done or not, and is not done again.
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

-- Lines about a run's curves, written when it has ended.
create table highlights (
    run_id     text not null references runs on delete cascade,
    started_at timestamptz not null,
    ended_at   timestamptz not null,
    kind       text not null,
    text       text not null,
    weight     double precision not null
);
create index on highlights (run_id, started_at);

-- The executor's own accounting of a run, beside the measurements.
create table accounting (
    run_id          text primary key references runs on delete cascade,
    step            text not null,
    state           text not null,
    elapsed_seconds double precision,
    cpu_seconds     double precision,
    max_rss_bytes   double precision,
    energy_joules   double precision
);

-- Raw samples are kept for ever, unless `keep_raw` is set. Below the cutoff they are deleted (but for runs to be kept) and the
-- aggregates are the truth.
create table bench_internal.retention (
    keep_raw   interval check (keep_raw >= interval '1 day'),
    raw_cutoff timestamptz not null default '-infinity'
);
insert into bench_internal.retention default values;
