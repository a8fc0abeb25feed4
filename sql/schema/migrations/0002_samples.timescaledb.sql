-- Samples in TimescaleDB Community: a hypertable with a columnstore, and hierarchical, real-time continuous aggregates.

create table samples (
    time      timestamptz not null,
    series_id integer not null,
    runset_id integer not null,
    value     double precision check (value < 'Infinity' and value > '-Infinity'),  -- NaN is above Infinity
    dt        real not null
);
select public.create_hypertable('samples', public.by_range('time', interval '1 day'), create_default_indexes => false);
create index samples_series on samples (series_id, time);
-- A refresh covers a span of time over all series, which the index by series does not serve: without range indexes, each
-- refresh reads all of the newest chunk. They hardly slow down writers.
create index samples_time on samples using brin (time) with (pages_per_range = 32, autosummarize = on);
alter table samples set (
    timescaledb.enable_columnstore,
    timescaledb.segmentby = 'series_id',
    timescaledb.orderby = 'time'
);
call public.add_columnstore_policy('samples', after => interval '1 day');

-- Buffer for late samples below the raw cutoff; empty between transactions.
create unlogged table bench_internal.late_samples (like samples);

-- Buffer for rows of samples_10s below the raw cutoff, which no refresh reaches.
create table bench_internal.samples_10s_late (
    bucket    timestamptz not null,
    series_id integer not null,
    runset_id integer not null,
    n         bigint not null,
    seconds   double precision,
    area      double precision,
    min       double precision,
    max       double precision
);

-- One job (70_aggregates) refreshes the levels in sequence. Separate policies would run concurrently: a level would aggregate
-- an incomplete one, and stay wrong until its next refresh.
create materialized view samples_10s with (
    timescaledb.continuous, timescaledb.materialized_only = false,
    timescaledb.create_group_indexes = false, timescaledb.chunk_interval = '1 day'
) as
select public.time_bucket(interval '10 s', time) as bucket, series_id, runset_id,
       count(*) as n,
       sum(case when value is not null then dt::float8 end) as seconds,
       sum(value * dt) as area, min(value) as min, max(value) as max
from samples group by 1, 2, 3
with no data;

create materialized view samples_1m with (
    timescaledb.continuous, timescaledb.materialized_only = false,
    timescaledb.create_group_indexes = false, timescaledb.chunk_interval = '1 day'
) as
select public.time_bucket(interval '1 min', bucket) as bucket, series_id, runset_id,
       sum(n)::bigint as n, sum(seconds) as seconds, sum(area) as area, min(min) as min, max(max) as max
from samples_10s group by 1, 2, 3
with no data;

create materialized view samples_10m with (
    timescaledb.continuous, timescaledb.materialized_only = false,
    timescaledb.create_group_indexes = false, timescaledb.chunk_interval = '7 days'
) as
select public.time_bucket(interval '10 min', bucket) as bucket, series_id, runset_id,
       sum(n)::bigint as n, sum(seconds) as seconds, sum(area) as area, min(min) as min, max(max) as max
from samples_1m group by 1, 2, 3
with no data;

create index samples_10s_series on samples_10s (series_id, bucket);
create index samples_1m_series on samples_1m (series_id, bucket);
create index samples_10m_series on samples_10m (series_id, bucket);
create index samples_10s_time on samples_10s using brin (bucket) with (pages_per_range = 32, autosummarize = on);
create index samples_1m_time on samples_1m using brin (bucket) with (pages_per_range = 32, autosummarize = on);

-- Uncompressed, samples_10s is larger than the compressed raw samples.
alter materialized view samples_10s set (
    timescaledb.enable_columnstore, timescaledb.segmentby = 'series_id', timescaledb.orderby = 'bucket');
alter materialized view samples_1m set (
    timescaledb.enable_columnstore, timescaledb.segmentby = 'series_id', timescaledb.orderby = 'bucket');
alter materialized view samples_10m set (
    timescaledb.enable_columnstore, timescaledb.segmentby = 'series_id', timescaledb.orderby = 'bucket');

call public.add_columnstore_policy('samples_10s', after => interval '2 days');
call public.add_columnstore_policy('samples_1m', after => interval '3 days');
call public.add_columnstore_policy('samples_10m', after => interval '8 days');
