-- Samples in plain PostgreSQL: one table, and downsampled relations that are computed on read, without background jobs.

create table samples (
    time      timestamptz not null,
    series_id integer not null,
    runset_id integer not null,
    value     double precision check (value < 'Infinity' and value > '-Infinity'),  -- NaN is above Infinity
    dt        real not null
);
create index samples_series on samples (series_id, time);
-- For queries of a time range over all series. A range index hardly slows down writers.
create index samples_time on samples using brin (time) with (pages_per_range = 32, autosummarize = on);

-- Buffer for late samples below the raw cutoff; empty between transactions.
create unlogged table bench_internal.late_samples (like samples);

-- Rows of the downsampled relations below the raw cutoff. Rows of the same bucket, series and run set add up: late
-- samples add another row.
create table bench_internal.samples_10s_stored (
    bucket    timestamptz not null,
    series_id integer not null,
    runset_id integer not null,
    n         bigint not null,
    seconds   double precision,
    area      double precision,
    min       double precision,
    max       double precision
);
create table bench_internal.samples_1m_stored (like bench_internal.samples_10s_stored);
create table bench_internal.samples_10m_stored (like bench_internal.samples_10s_stored);
create index on bench_internal.samples_10s_stored (series_id, bucket);
create index on bench_internal.samples_1m_stored (series_id, bucket);
create index on bench_internal.samples_10m_stored (series_id, bucket);

-- The origin is time_bucket's, so that both flavours have the same buckets.
create view samples_10s as
select bucket, series_id, runset_id, n, seconds, area, min, max from samples_10s_stored
union all
select date_bin('10 s', time, timestamptz '2000-01-03 00:00:00+00') as bucket, series_id, runset_id,
       count(*) as n,
       sum(case when value is not null then dt::float8 end) as seconds,
       sum(value * dt) as area, min(value) as min, max(value) as max
from samples where time >= (select raw_cutoff from retention) group by 1, 2, 3;

create view samples_1m as
select bucket, series_id, runset_id, n, seconds, area, min, max from samples_1m_stored
union all
select date_bin('1 min', time, timestamptz '2000-01-03 00:00:00+00') as bucket, series_id, runset_id,
       count(*) as n,
       sum(case when value is not null then dt::float8 end) as seconds,
       sum(value * dt) as area, min(value) as min, max(value) as max
from samples where time >= (select raw_cutoff from retention) group by 1, 2, 3;

create view samples_10m as
select bucket, series_id, runset_id, n, seconds, area, min, max from samples_10m_stored
union all
select date_bin('10 min', time, timestamptz '2000-01-03 00:00:00+00') as bucket, series_id, runset_id,
       count(*) as n,
       sum(case when value is not null then dt::float8 end) as seconds,
       sum(value * dt) as area, min(value) as min, max(value) as max
from samples where time >= (select raw_cutoff from retention) group by 1, 2, 3;
