-- Building blocks of rules: the points of a run, and the intervals in which a condition holds.

-- Return means of a run's quantities over `p_point`, or over longer points where there would be too many: a row per point and
-- quantity, and per device by display name where wanted. Each quantity is in its narrowest scope, as in a chart.
create or replace function rule_points(
    p_run text, p_quantities text[], p_start timestamptz, p_stop timestamptz, p_point interval,
    p_per_device boolean default false, p_scopes text[] default null
) returns table (started_at timestamptz, quantity text, scope text, device text, value float8, low float8, high float8)
language sql stable as $$
    select c.time, c.quantity, c.scope, coalesce(d.device, c.id), c.value, c.low, c.high
    from (select x.*, case when p_per_device then regexp_replace(x.series, '^.* ', '') end as id
          from run_chart(array[p_run], p_quantities, p_start, p_stop, 1000 * extract(epoch from p_point)::float8, false,
                         -- At least eight, so that a long run has the same points for any number of quantities.
                         greatest(8, cardinality(p_quantities) * case when p_per_device then (
                             select count(*)::integer from placements where run_id = p_run) end),
                         p_scopes, p_per_device) x) c
    left join (select distinct host, origin from placements where run_id = p_run) p on p_per_device
    left join devices d on d.host = p.host and d.origin = p.origin and concat_ws('/', d.gpu_uuid, d.gpu_instance_id) = c.id
$$;

-- Return the cores at each point: used by the run, available to it, and in use on the whole host.
create or replace function rule_cpu(p_run text, p_start timestamptz, p_stop timestamptz, p_point interval)
returns table (started_at timestamptz, used float8, available float8, host_used float8, host_waited float8, host_cores float8,
               host_pressure float8)
language sql stable as $$
    select started_at, used, coalesce(available, busy + idle + waited), busy, waited, busy + idle + waited, pressure
    from (
        select started_at, max(value) filter (where (scope, quantity) = ('process', 'cpu_usage')) as used,
               max(value) filter (where quantity = 'cpu_available') as available,
               max(value) filter (where (scope, quantity) = ('host', 'cpu_usage')) as busy,
               max(value) filter (where quantity = 'cpu_idle') as idle,
               coalesce(max(value) filter (where quantity = 'cpu_iowait'), 0) as waited,
               max(value) filter (where quantity = 'io_pressure') as pressure
        from (select * from rule_points(p_run, '{cpu_usage,cpu_available}', p_start, p_stop, p_point, false, '{process}')
              union all
              select * from rule_points(p_run, '{cpu_usage,cpu_idle,cpu_iowait,io_pressure}', p_start, p_stop, p_point, false,
                                        '{host}')) x
        group by started_at) points
$$;

-- Return the start of the window that holds a time: windows follow each other from `p_skip` after the run's start. Null before
-- that, and for a window that is not wholly between `p_start` and `p_stop`.
create or replace function rule_window(
    p_run text, p_at timestamptz, p_window interval, p_skip interval, p_start timestamptz, p_stop timestamptz
) returns timestamptz language sql stable as $$
    select w.begins
    from runs r cross join lateral (select date_bin(p_window, p_at, r.started_at + p_skip) as begins) w
    where r.run_id = p_run and w.begins >= greatest(p_start, r.started_at + p_skip) and w.begins + p_window <= p_stop
$$;

-- Return the distribution of points over windows. A window counts where at least half of it was measured.
create or replace function rule_windows(
    p_run text, p_quantities text[], p_start timestamptz, p_stop timestamptz, p_point interval, p_window interval,
    p_skip interval, p_per_device boolean default false
) returns table (started_at timestamptz, quantity text, scope text, device text, p5 float8, p95 float8, mean float8)
language sql stable as $$
    select w.begins, x.quantity, min(x.scope), x.device, percentile_cont(0.05) within group (order by x.value),
           percentile_cont(0.95) within group (order by x.value), avg(x.value)
    from rule_points(p_run, p_quantities, p_start, p_stop, p_point, p_per_device) x
    cross join lateral (select rule_window(p_run, x.started_at, p_window, p_skip, p_start, p_stop) as begins) w
    where w.begins is not null
    group by w.begins, x.quantity, x.device
    having max(x.started_at) - min(x.started_at) + p_point >= p_window / 2
$$;

-- Return the intervals in which a condition holds at consecutive points, for at least `p_minimum`. One that still holds at
-- `p_stop`, as far as that is known, has no `ended_at`; `until` is the end of its last point. A gap in the measurements of a
-- minute (the longest scrape interval) beyond the usual distance of points ends an interval. Each point stands for `p_width`,
-- by default that distance.
create or replace function rule_intervals(
    p_times timestamptz[], p_holds boolean[], p_minimum interval, p_stop timestamptz, p_width interval default null
) returns table (started_at timestamptz, ended_at timestamptz, until timestamptz) language sql immutable as $$
    with points as (
        select time, coalesce(holds, false) as holds, lead(time) over (order by time) as following
        from unnest(p_times, p_holds) as p (time, holds)
    ), width as (
        select coalesce(p_width, percentile_disc(0.5) within group (order by following - time), p_stop - min(time)) as width from points
    ), bounded as (
        select time, holds, following is null as newest,
               case when following <= time + width + interval '1 min' then following else time + width end as ends,
               time + 2 * width + interval '1 min' >= p_stop as fresh
        from points, width
    ), parted as (
        select *, count(*) filter (where begins) over (order by time) as part
        from (select *, (lag(holds) over line and lag(ends) over line = time) is not true as begins
              from bounded window line as (order by time)) x
    ), whole as (
        select min(time) as begins, least(max(ends), p_stop) as until, bool_or(newest and fresh) as open_ended
        from parted where holds group by part
    )
    select begins, case when not open_ended then until end, until
    from whole where until - begins >= p_minimum order by begins
$$;

-- Return the ended steps of a run with their process; its epochs where it has no steps.
create or replace function rule_steps(p_run text, p_start timestamptz, p_stop timestamptz)
returns table (pid integer, step bigint, started_at timestamptz, ended_at timestamptz, seconds float8)
language sql stable as $$
    select pid, step, started_at, ended_at, extract(epoch from ended_at - started_at)::float8
    from spans
    where run_id = p_run and ended_at is not null and started_at >= p_start and started_at < p_stop
      and kind = case when exists (select from spans where run_id = p_run and kind = 'step') then 'step' else 'epoch' end
$$;
