-- Raw samples are kept for ever, unless it is said for how long. Below the edge they are gone (but for runs to be kept)
-- and the aggregates are the truth.
create table retention (
    keep_raw interval check (keep_raw >= interval '1 day'),
    edge     timestamptz not null default '-infinity'
);
insert into retention default values;

-- Samples on their way to below the edge; empty between transactions.
create unlogged table late_samples (like samples);

-- What the downsampled relations keep of samples below the edge. Rows of the same bucket, series and run set add up: what
-- is written late comes beside what was there.
create table samples_10s_stored (
    bucket    timestamptz not null,
    series_id integer not null,
    runset_id integer not null,
    n         bigint not null,
    seconds   double precision,
    area      double precision,
    min       double precision,
    max       double precision
);
create table samples_1m_stored (like samples_10s_stored);
create table samples_10m_stored (like samples_10s_stored);
create index on samples_10s_stored (series_id, bucket);
create index on samples_1m_stored (series_id, bucket);
create index on samples_10m_stored (series_id, bucket);

create or replace view samples_10s as
select bucket, series_id, runset_id, n, seconds, area, min, max from samples_10s_stored
union all
select date_bin('10 s', time, timestamptz '2000-01-03 00:00:00+00') as bucket, series_id, runset_id,
       count(*) as n,
       sum(case when value is not null then dt::float8 end) as seconds,
       sum(value * dt) as area, min(value) as min, max(value) as max
from samples where time >= (select edge from retention) group by 1, 2, 3;

create or replace view samples_1m as
select bucket, series_id, runset_id, n, seconds, area, min, max from samples_1m_stored
union all
select date_bin('1 min', time, timestamptz '2000-01-03 00:00:00+00') as bucket, series_id, runset_id,
       count(*) as n,
       sum(case when value is not null then dt::float8 end) as seconds,
       sum(value * dt) as area, min(value) as min, max(value) as max
from samples where time >= (select edge from retention) group by 1, 2, 3;

create or replace view samples_10m as
select bucket, series_id, runset_id, n, seconds, area, min, max from samples_10m_stored
union all
select date_bin('10 min', time, timestamptz '2000-01-03 00:00:00+00') as bucket, series_id, runset_id,
       count(*) as n,
       sum(case when value is not null then dt::float8 end) as seconds,
       sum(value * dt) as area, min(value) as min, max(value) as max
from samples where time >= (select edge from retention) group by 1, 2, 3;

drop function if exists retag(integer, timestamptz);  -- it answers otherwise since
