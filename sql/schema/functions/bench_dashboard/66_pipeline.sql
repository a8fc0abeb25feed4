-- The pipeline itself: scrapes, and missed scrapes.

-- Scrape markers: for each target a series that is in each of its responses.
create or replace view bench_dashboard.scrape_markers as
select t.target_id, s.series_id
from targets t cross join lateral (
    select series_id from series
    where target_id = t.target_id
    order by array_position(array['bench_exporter_up', 'bench_collector_series', 'process_start_time_seconds',
                                  'node_load1', 'DCGM_FI_DEV_GPU_TEMP'], metric), series_id desc
    limit 1) s;

-- Display names of targets: the exporter, with the host where there are several, and the address where these are ambiguous.
create or replace view bench_dashboard.target_names as
select target_id,
       concat_ws(' ', listener, case when count(*) over (partition by listener) > 1 then host end,
                 case when count(*) over (partition by listener, host) > 1 then instance end) as target
from targets;

-- Return the number of scrapes of each target in each step of an interval, and the expected number; `share` is their ratio. No
-- rows before a target's first scrape, after its last scrape without a lease, and while no target was scraped; where that is
-- a part of a step, only its other part counts. No rows either while a run of the host chose its exporters and their intervals.
-- Whole steps only; the first `max_targets` targets by name.
create or replace function bench_dashboard.target_scrapes(
    start timestamptz, stop timestamptz, step_ms double precision, max_targets integer default 40
) returns table ("time" timestamptz, target_id integer, target text, came bigint, wanted double precision,
                 share double precision)
language sql stable as $$
    with requested as materialized (
        select p.*, n.target, dense_rank() over (order by n.target, p.target_id) as line
        from scrape_markers p join target_names n using (target_id)
    ), came as materialized (
        select a.target_id, x.time, x.width, x.n as came, x.seconds / x.n as apart
        from requested a
        join series_steps(array(select series_id from requested where line <= target_scrapes.max_targets),
                          target_scrapes.start, target_scrapes.stop, target_scrapes.step_ms) x using (series_id)
        where x.seconds > 0
    ), spans as materialized (
        -- The median is right as long as half of the steps are without a gap.
        select c.target_id, percentile_cont(0.5) within group (order by c.apart) as interval, min(c.time) as first,
               case when bool_or(t.lease_until > now()) then 'infinity' else max(c.time) end as last
        from came c join targets t using (target_id) group by c.target_id
    ), steps as (
        -- The target with the most scrapes shows for how long a collector ran.
        select c.time, c.width, least(c.width, max(c.came * p.interval)) as seconds
        from came c join spans p using (target_id)
        where c.time >= target_scrapes.start
          -- The newest scrapes may not be written yet.
          and c.time + make_interval(secs => c.width) <= least(target_scrapes.stop, now() - interval '5 s')
        group by c.time, c.width
    )
    select s.time, a.target_id, a.target, coalesce(c.came, 0), s.seconds / p.interval,
           least(coalesce(c.came, 0) * p.interval / s.seconds, 1)
    from steps s
    join spans p on s.time > p.first and s.time < p.last
    join requested a using (target_id)
    left join came c on c.target_id = p.target_id and c.time = s.time
    where not exists (
        select from runs r join targets t using (host)
        where t.target_id = a.target_id and r.exporters is not null
          -- A collector follows within seconds.
          and r.started_at < s.time + make_interval(secs => s.width + 10)
          and coalesce(r.ended_at, now()) > s.time - interval '10 s')
    order by s.time, a.target
$$;

-- Return the state of each target: `lag` are the seconds since its newest sample of the last hour; `missed` are the expected
-- scrapes of the interval that are missing, to the end of a step.
create or replace function bench_dashboard.target_health(start timestamptz, stop timestamptz)
returns table (target text, host text, listener text, up boolean, lag double precision, interval_seconds double precision,
               series bigint, came bigint, missed double precision, clock_offset double precision, url text)
language sql stable as $$
    with scraped as (
        -- A late scrape may count in the next step.
        select target_id, sum(came)::bigint as came, greatest(sum(wanted) - sum(came), 0)::float8 as missed
        from target_scrapes(target_health.start, target_health.stop,
                            extract(epoch from target_health.stop - target_health.start) * 10, 1000)
        group by target_id
    )
    select n.target, t.host, t.listener, t.up and t.lease_until > now(), extract(epoch from now() - x.time)::float8, x.dt,
           (select count(*) from series s where s.target_id = t.target_id), s.came, s.missed, t.clock_offset, t.url
    from targets t join target_names n using (target_id)
    left join scrape_markers p using (target_id)
    left join lateral (
        select time, dt::float8 from bounded_samples
        where series_id = p.series_id and time > now() - interval '1 hour' and last > now() - interval '1 hour'
        order by time desc limit 1) x on true
    left join scraped s using (target_id)
    where t.lease_until > now() or s.came > 0
    order by n.target
$$;

-- Return the mean times of the collectors' work in seconds: a scrape, the delay of its start, and a transaction.
create or replace function bench_dashboard.collector_times(start timestamptz, stop timestamptz, step_ms double precision)
returns table ("time" timestamptz, what text, seconds double precision) language sql stable as $$
    with sums as materialized (
        select time, quantity, sum(value) as value
        from series_chart(array['collector_scrapes', 'collector_scrape_time', 'collector_scrape_lag', 'collector_writes',
                                'collector_write_time'],
                          collector_times.start, collector_times.stop, collector_times.step_ms, 'host', 1000)
        group by time, quantity
    )
    select t.time, x.what, t.value / n.value
    from (values ('collector_scrape_time', 'collector_scrapes', 'a scrape takes'),
                 ('collector_scrape_lag', 'collector_scrapes', 'a scrape is late by'),
                 ('collector_write_time', 'collector_writes', 'a transaction takes')) as x (took, count, what)
    join sums t on t.quantity = x.took join sums n on n.quantity = x.count and n.time = t.time and n.value > 0
    order by t.time, x.what
$$;

-- Return the errors of an interval, as collectors counted them, with the reason where there are several. A line with the time of its
-- last sample is none: exporters repeat the last totals of ended runs.
create or replace function bench_dashboard.collector_errors(start timestamptz, stop timestamptz)
returns table (what text, reason text, times double precision) language sql stable as $$
    with counters as materialized (
        select s.series_id, w.what, coalesce(s.labels ->> 'outcome', s.labels ->> 'reason', '') as reason
        from (values ('collector_scrapes', 'scrapes failed'), ('collector_missed_scrapes', 'scrapes came too late'),
                     ('collector_dropped_lines', 'lines gave no sample'), ('collector_lost_samples', 'samples lost'),
                     ('collector_write_errors', 'writes failed'), ('collector_replayed_batches', 'batches found written'),
                     ('collector_retimed_lines', 'lines from the future'),
                     ('collector_damaged_records', 'records of the spool damaged'),
                     ('collector_discovery_errors', 'lists of targets not read')) as w (quantity, what)
        join series s using (quantity)
        where s.labels ->> 'outcome' is distinct from 'ok' and s.labels ->> 'reason' is distinct from 'stale'
    )
    select c.what, c.reason, sum(x.area)
    from counters c
    join series_steps(array(select series_id from counters), collector_errors.start, collector_errors.stop,
                      extract(epoch from collector_errors.stop - collector_errors.start) * 10) x using (series_id)
    group by c.what, c.reason having sum(x.area) > 0 order by 3 desc, 1, 2
$$;
