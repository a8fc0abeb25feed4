-- Positions of runs on an axis other than the clock: steps, epochs, or the time within a phase. `align` names the axis.

-- Raise an error for an unknown axis.
create or replace function bench_internal.check_align(p_align text) returns void language plpgsql immutable as $$
begin
    if p_align is null or p_align not in ('time', 'step', 'epoch', 'phase') and p_align not like 'phase:_%' then
        raise exception 'align is %, but must be time, step, epoch, phase or phase:NAME', quote_nullable(p_align)
        using errcode = 'invalid_parameter_value';
    end if;
end $$;

-- Return the training phase: the outermost phase in which the median step or epoch begins; the longest phase of a run without
-- steps.
create or replace function bench_internal.training_phase(p_run text) returns text language sql stable as $$
    select s.name
    from spans s, (select percentile_disc(0.5) within group (order by started_at) as time
                   from spans where run_id = p_run and kind in ('step', 'epoch')) middle
    where s.run_id = p_run and s.kind = 'phase'
    order by (s.started_at <= middle.time and coalesce(s.ended_at, 'infinity') > middle.time) is true desc,
             coalesce(s.ended_at, now()) - s.started_at desc, s.started_at
    limit 1
$$;

-- Return the pieces of an axis by spans, unordered: a position and its time, and the next position and its time. A piece is from a
-- step's number to the next. A step of several ranks, or a repeated step, has several rows. Numbers that restart at the first, as
-- the steps of an epoch often do, continue from the previous ones.
create or replace function bench_internal.span_points(p_run text, p_kind text)
returns table ("position" float8, started_at timestamptz, next_position float8, ended_at timestamptz) language sql stable as $$
    with numbered as materialized (
        select step, started_at, ended_at, pid, thread from spans
        where run_id = p_run and kind = p_kind and step is not null
    ), rounds as (
        select array_agg(begins order by begins) as begins
        from (select min(started_at) as begins
              from (select started_at, row_number() over (partition by pid, thread order by started_at) as round
                    from numbered where step = (select min(step) from numbered)) firsts
              group by round) each
    ), counted as (
        select array_agg(before order by round) as before
        from (select round, (sum(steps) over (order by round) - steps)::float8 as before
              from (select greatest(width_bucket(started_at, (select begins from rounds)), 1) as round,
                           max(step) - min(step) + 1 as steps
                    from numbered where (select cardinality(begins) > 1 from rounds) group by 1) each) all_of_them
    ), placed as (
        select step + coalesce(((select before from counted))[width_bucket(started_at, (select begins from rounds))], 0) as position,
               started_at, ended_at
        from numbered
    )
    select position, started_at, case when ended_at is null then position else position + 1 end, coalesce(ended_at, started_at)
    from placed
$$;

-- Return the software metric whose steps count for a run. Keys may count batches or epochs, so it is the most frequently logged
-- key whose step increases.
create or replace function bench_internal.counting_metric(p_run text) returns text language sql stable as $$
    select key from software_metrics where run_id = p_run group by key having max(step) > min(step)
    order by count(*) desc, min(time), key limit 1
$$;

-- Return the pieces of an axis by software metrics: a log entry ends its step. Trainers that know the epoch of a step log it
-- as `epoch`.
create or replace function bench_internal.logged_points(p_run text, p_kind text)
returns table ("position" float8, started_at timestamptz, next_position float8, ended_at timestamptz) language sql stable as $$
    with epochs as (
        select value as position, min(time) as time from software_metrics
        where run_id = p_run and key = 'epoch' and p_kind = 'epoch' and value is not null group by value
    ), steps as (
        select (step + 1)::float8 as position, time from software_metrics
        where run_id = p_run and not exists (select from epochs) and key = counting_metric(p_run)
    )
    select position, time, position, time from (select * from epochs union all select * from steps) logged
$$;

-- Return the piece of an axis by the first span of a phase, and by the spans of other ranks that overlap it.
create or replace function bench_internal.phase_points(p_run text, p_name text)
returns table ("position" float8, started_at timestamptz, next_position float8, ended_at timestamptz) language sql stable as $$
    with named as (
        select s.started_at, coalesce(s.ended_at, r.ended_at, now()) as ended_at
        from spans s join runs r using (run_id) where run_id = p_run and s.kind = 'phase' and s.name = p_name
    ), parted as (
        select *, started_at > max(ended_at) over (order by started_at rows between unbounded preceding and 1 preceding) as apart
        from named
    ), first as (
        select min(started_at) as begins, max(ended_at) as ends
        from (select *, bool_or(apart) over (order by started_at) as later from parted) x where later is not true
    )
    select 0::float8, begins, extract(epoch from ends - begins)::float8, ends from first where begins is not null
$$;

-- Return the pieces of the axis `p_align` of a run.
create or replace function bench_internal.axis_points(p_run text, p_align text)
returns table ("position" float8, started_at timestamptz, next_position float8, ended_at timestamptz) language plpgsql stable as $$
begin
    perform check_align(p_align);
    if p_align = 'time' then
        return query
        select 0::float8, r.started_at, extract(epoch from ends - r.started_at)::float8, ends
        from runs r cross join lateral (select coalesce(r.ended_at, now()) as ends) x
        where r.run_id = p_run and r.started_at is not null;
    elsif p_align like 'phase%' then
        return query select * from phase_points(p_run, coalesce(nullif(substr(p_align, 7), ''), training_phase(p_run)));
    else
        return query select * from span_points(p_run, p_align);
        if not found then
            return query select * from logged_points(p_run, p_align);
        end if;
    end if;
end $$;

-- Return an axis in linear pieces, in the order of time, with positions that never decrease. Of work that was lost and repeated
-- the last attempt counts; until then the position does not change.
--
-- Of many points, the first and last of each interval of length `p_every` are kept: these fix the times at which the run
-- reached the interval's ends. There are at most `p_most` intervals.
create or replace function bench_internal.run_axis(
    p_run text, p_align text, p_every float8, p_most float8 default 'infinity', p_origin float8 default 0
) returns table ("position" float8, "time" timestamptz, next_position float8, next_time timestamptz) language sql stable as $$
    with points as materialized (
        select * from axis_points(p_run, p_align)
    ), every as (
        select greatest(p_every, (max(next_position) - min(position)) / p_most) as every from points
    ), intervals as (
        select min(position) as first, max(next_position) as last, max(ended_at) as ends,
               case when min(position) < max(position) then min(started_at) else max(started_at) end as begins
        from points, every group by floor((position - p_origin) / every)
    ), anchors as (
        select least(min(position) over line,
                     (select next_position from points order by started_at desc, position desc limit 1)) as position, time
        from intervals cross join lateral (values (first, begins), (last, ends)) as ends (position, time)
        window line as (order by time desc, position desc)
    )
    select position, time, lag(position) over line, lag(time) over line from anchors
    window line as (order by time desc, position desc)
$$;

-- Return the first and last position of a run on an axis, with their times; no row for a run without it, such as one without
-- steps.
--
-- align  `time`: seconds since the run's start; `step`, `epoch`: by the spans of that kind, else by the steps of software
--        metrics; `phase:NAME`: seconds since the phase's first start; `phase`: of the training, see `training_phase`
create or replace function chart_axis(run_id text, align text)
returns table (first float8, last float8, started_at timestamptz, ended_at timestamptz) language sql stable as $$
    select min(position), max(position), min(time), max(time) from run_axis($1, $2, 'infinity')
    having max(position) > min(position)
$$;

-- Return the time that a run took for a part of an axis: from leaving `p_first` to reaching `p_last`; and the start of what
-- followed, to which later log entries belong.
create or replace function bench_internal.axis_interval(p_run text, p_align text, p_first float8, p_last float8)
returns table (started_at timestamptz, ended_at timestamptz, followed_at timestamptz) language sql stable as $$
    with bounds as (
        select coalesce(max(time + (p_first - position) / (next_position - position) * (next_time - time))
                        filter (where position <= p_first and next_position > p_first), min(time)) as started_at,
               coalesce(max(time + (p_last - position) / (next_position - position) * (next_time - time))
                        filter (where position < p_last and next_position >= p_last), max(time)) as ended_at
        from run_axis(p_run, p_align, p_last - p_first, p_origin => p_first)
    )
    select started_at, ended_at,
           case when p_align = 'time' then ended_at
                when p_align like 'phase%' then
                    (select min(s.started_at) from spans s
                     where s.run_id = p_run and s.kind = 'phase' and s.started_at >= bounds.ended_at)
                else (select min(x.started_at) from axis_points(p_run, p_align) x
                      where x.started_at >= bounds.ended_at and x.next_position > p_last) end
    from bounds where started_at is not null
$$;

-- Return the bins of a chart along an axis, for each run that has the axis: the interval of time to read, and the edges of bins
-- of width `step`. A time at or after the nth of `edges` (Unix seconds) belongs to the bin `first_bin` + n.
--
-- `step` is `p_step`, or longer where that would be more than `p_most` bins. `pace` is the seconds per position of the fastest
-- run.
create or replace function bench_internal.axis_bins(
    p_runs text[], p_align text, p_start float8, p_stop float8, p_step float8, p_most float8
) returns table (run_id text, low timestamptz, high timestamptz, first_bin bigint, edges float8[], step float8, pace float8)
language sql stable as $$
    with pieces as materialized (
        select r.run_id, a.* from runs r cross join lateral run_axis(r.run_id, p_align, p_step, p_most) a
        where r.run_id = any(p_runs) or r.mlflow_run_id = any(p_runs)
    ), axes as (
        select run_id, greatest(min(position), p_start) as first, least(max(position), p_stop) as last,
               extract(epoch from max(time) - min(time)) / nullif(max(position) - min(position), 0) as pace
        from pieces group by run_id
    ), cut as materialized (
        select run_id, first, last, greatest(p_step, max(last - first) over () / p_most) as step,
               min(pace) over () as pace
        from axes where first < last
    ), bounds as (
        select run_id, coalesce(max(time + (c.first - position) / (next_position - position) * (next_time - time))
                                filter (where position <= c.first and next_position > c.first), min(time)) as low,
               coalesce(max(time + (c.last - position) / (next_position - position) * (next_time - time))
                        filter (where position <= c.last and next_position > c.last), max(time)) as high
        from cut c join pieces using (run_id) group by run_id
    ), ends as (
        select run_id, array_agg(extract(epoch from time + (number * step - position) / (next_position - position)
                                                           * (next_time - time))::float8 order by number) as edges
        from cut c join pieces using (run_id)
        cross join lateral generate_series(
            greatest(ceil(position / step), floor(c.first / step) + 1)::bigint,
            least(ceil(next_position / step) - 1, floor(c.last / step))::bigint) as number
        -- A piece may hold no edge of a bin.
        where next_position > position and ceil(next_position / step) > ceil(position / step)
        group by run_id
    )
    select run_id, low, high, floor(first / step)::bigint, coalesce(edges, '{}'), step, pace
    from cut join bounds using (run_id) left join ends using (run_id)
$$;

-- Return a bound of a chart as a time of one run: unchanged, or, in an aligned chart, counted from the run's start.
create or replace function bench_internal.chart_bound(bound timestamptz, run_start timestamptz, aligned boolean, open timestamptz)
returns timestamptz language sql immutable as $$
    select case when bound is null then open
                when aligned then run_start + (bound - timestamptz '1970-01-01 00:00:00+00')
                else bound end
$$;
