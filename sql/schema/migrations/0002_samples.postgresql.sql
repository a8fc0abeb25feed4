-- Samples in plain PostgreSQL: one table, and the downsampled relations computed on read. No background job, nothing
-- to keep in step.

create table samples (
    time      timestamptz not null,
    series_id integer not null,
    runset_id integer not null,
    value     double precision check (value < 'Infinity' and value > '-Infinity'),  -- NaN is above Infinity
    dt        real not null
);
create index samples_series on samples (series_id, time);

-- The origin is time_bucket's, so that both flavours have the same buckets.
create view samples_10s as
select date_bin('10 s', time, timestamptz '2000-01-03 00:00:00+00') as bucket, series_id, runset_id,
       count(*) as n,
       sum(case when value is not null then dt::float8 end) as seconds,
       sum(value * dt) as area, min(value) as min, max(value) as max
from samples group by 1, 2, 3;

create view samples_1m as
select date_bin('1 min', time, timestamptz '2000-01-03 00:00:00+00') as bucket, series_id, runset_id,
       count(*) as n,
       sum(case when value is not null then dt::float8 end) as seconds,
       sum(value * dt) as area, min(value) as min, max(value) as max
from samples group by 1, 2, 3;

create view samples_10m as
select date_bin('10 min', time, timestamptz '2000-01-03 00:00:00+00') as bucket, series_id, runset_id,
       count(*) as n,
       sum(case when value is not null then dt::float8 end) as seconds,
       sum(value * dt) as area, min(value) as min, max(value) as max
from samples group by 1, 2, 3;
