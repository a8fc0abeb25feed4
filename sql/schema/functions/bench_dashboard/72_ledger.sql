-- The ledger of GPUs: the runs on each GPU and MIG instance over real time, and each run's own part of it. A lane is a GPU or an
-- instance with a run, a block a run on a lane.

-- Return the blocks of runs, by host, lane and start. `shared` is whether another run was on the lane at some time. `color` and
-- `stroke` are those of `chart_style`.
create or replace function bench_dashboard.ledger_blocks(p_runs text[])
returns table (run_id text, run text, title text, color text, stroke text, status text, reason text, early boolean,
               place_id integer, host text, lane text, simulated boolean, shared boolean, started_at timestamptz,
               ended_at timestamptz)
language sql stable rows 100 as $$
    with placed as materialized (
        select p.run_id, l.place_id, p.started_at, p.ended_at, p.host,
               coalesce(p.mig_uuid, p.gpu_uuid) as uuid
        from placements p
        join places l on l.host = p.host and l.gpu_uuid = p.gpu_uuid and l.origin = p.origin and l.run_id is null
                     and l.gpu_instance_id is not distinct from p.gpu_instance_id
        where p.run_id = any(p_runs)
    ), lanes as materialized (
        select place_id, device, simulated from devices where place_id in (select place_id from placed)
    ), titles as materialized (
        select * from titled_runs(p_runs)
    )
    select b.run_id, t.run, t.title, t.color, t.stroke, r.status, r.reason, ended_early(r.status), b.place_id, b.host,
           coalesce(l.device, b.uuid), r.simulated or coalesce(l.simulated, false),
           exists (select from run_sets mine where mine.run_id = b.run_id and mine.place_id = b.place_id
                   and (mine.others > 0 or exists (select from run_sets other where other.runset_id = mine.runset_id
                                                   and other.run_id <> b.run_id))),
           b.started_at, b.ended_at
    from placed b join runs r using (run_id) join titles t using (run_id) left join lanes l using (place_id)
    order by b.host, device_number(l.device), 11, b.started_at, t.nth
$$;

-- Return points of the runs' own part of their lanes. `measure` is `sm`, the share of the multiprocessors, or `power`, watts
-- above idle. `own` is false where the value is an even part of that of a device with several runs, since nothing measured
-- the run itself. `quantity` is the source: `gpu_power` includes idle power. For `start`, `stop` and `step_ms` see `run_chart`.
create or replace function bench_dashboard.ledger_shares(
    p_runs text[], measure text, start timestamptz, stop timestamptz, step_ms double precision, p_places integer[] default null
) returns table ("time" timestamptz, run_id text, place_id integer, quantity text, own boolean, value double precision)
language sql stable as $$
    with divided as materialized (
        select energy_divided(p_runs) as run_id
    ), blocks as materialized (
        select b.run_id, b.run, b.place_id, concat_ws('/', p.gpu_uuid, p.gpu_instance_id) as device
        from ledger_blocks(p_runs) b join places p using (place_id)
        where p_places is null or b.place_id = any(p_places)
    ), ranks (quantity, rank) as (
        select * from unnest(case ledger_shares.measure
                                  when 'power' then '{gpu_energy_attributed,gpu_power}'::text[]
                                  else '{gpu_sm_utilization,gpu_sm_active,gpu_utilization}' end) with ordinality
    ), chosen as materialized (
        -- Where a run shared its device for a while, scope `device` has all of its time on it.
        select distinct on (b.run_id, b.place_id) b.run_id, b.run, b.place_id, b.device, s.quantity, s.scope
        from run_sources(array(select run_id from blocks), array(select quantity from ranks)) s
        join blocks b on b.run_id = s.run_id and b.device = s.device join ranks using (quantity)
        where s.counts and s.scope <> 'host'
              -- An MPS client has a utilization of its own only while it is the only one.
              and not (s.quantity = 'gpu_sm_utilization' and b.run_id in (select run_id from divided))
        order by b.run_id, b.place_id, rank, scope_width(s.scope, false)
    ), together as materialized (
        select quantity, scope, array_agg(distinct run_id) as runs, count(*)::integer as lines
        from chosen group by quantity, scope
    ), points as materialized (
        select c.run_id, c.place_id, c.quantity, c.scope, x.time, x.value
        from together t
        cross join lateral run_chart(t.runs, array[t.quantity], ledger_shares.start, ledger_shares.stop,
                                     ledger_shares.step_ms, false, 8 * t.lines, array[t.scope], true) x
        join chosen c on c.quantity = t.quantity and c.scope = t.scope and c.run = x.run
                     and c.device = regexp_replace(x.series, '^.* ', '')
    ), spans as materialized (
        select mine.run_id, mine.place_id, mine.started_at, coalesce(mine.ended_at, 'infinity') as ended_at,
               (select count(*) + max(others) from run_sets s where s.runset_id = mine.runset_id) as n
        from run_sets mine join chosen using (run_id, place_id) where chosen.scope <> 'process'
    )
    select p.time, p.run_id, p.place_id, p.quantity,
           coalesce(s.n, 1) = 1 and not (p.quantity = 'gpu_energy_attributed' and p.run_id in (select run_id from divided)),
           p.value / coalesce(s.n, 1)
    from points p
    left join spans s on s.run_id = p.run_id and s.place_id = p.place_id and p.time >= s.started_at and p.time < s.ended_at
    where p.value is not null order by p.time, p.run_id, p.place_id
$$;

-- Return the idle power of whole GPUs in watts, in steps of real time.
create or replace function bench_dashboard.ledger_idle(
    p_places integer[], start timestamptz, stop timestamptz, step_ms double precision
) returns table ("time" timestamptz, place_id integer, value double precision) language sql stable as $$
    with members as materialized (
        select s.series_id, s.place_id, s.metric, s.target_id, coalesce(m.preference, 1) as preference,
               coalesce(m.scale, 1) as scale
        from series s left join metrics m using (metric_id)
        where s.place_id = any(p_places) and s.quantity = 'gpu_energy_idle'
    )
    select distinct on (x.time, m.place_id) x.time, m.place_id, m.scale * x.area / x.seconds
    from series_steps(array(select series_id from members), ledger_idle.start, ledger_idle.stop, ledger_idle.step_ms) x
    join members m using (series_id)
    where x.seconds > 0
    -- All sources have the same idle power. The exporter `dcgm`, which is preferred, does not measure runs that chose others.
    order by x.time, m.place_id, m.preference desc, m.metric, m.target_id
$$;

-- Return the newest runs of this site with GPUs in an interval; of all hosts or experiments where null.
create or replace function bench_dashboard.ledger_runs(
    start timestamptz, stop timestamptz, hosts text[] default null, experiments text[] default null, p_most integer default 200
) returns text[] language sql stable as $$
    select array(
        select r.run_id
        from placements p join runs r using (run_id) join workloads w using (workload_id)
        where p.gpu_uuid is not null and p.origin = '' and p.started_at < ledger_runs.stop
          and coalesce(p.ended_at, 'infinity') > ledger_runs.start
          and (ledger_runs.hosts is null or p.host = any(ledger_runs.hosts))
          and (ledger_runs.experiments is null or w.experiment_id::text = any(ledger_runs.experiments))
        group by r.run_id order by max(p.started_at) desc, r.run_id limit p_most)
$$;

-- Return the blocks of runs as states of lines, one line for each run that is on a lane at the same time. The last part of a block is
-- `lost`: what the run took longer than alone, see `run_costs`.
create or replace function bench_dashboard.ledger_states(p_runs text[], start timestamptz, stop timestamptz)
returns table ("time" timestamptz, ended timestamptz, lane text, run_id text, title text, color text, lost boolean)
language plpgsql stable rows 100 as $$
declare
    several constant boolean := (select count(distinct host) > 1 from ledger_blocks(p_runs));
    block record;
    here integer;
    until timestamptz[];  -- end of the last run on each line of the lane
    line integer;
begin
    for block in
        with costs as materialized (select * from run_costs(p_runs)), blocks as materialized (select * from ledger_blocks(p_runs))
        select b.*, coalesce(b.ended_at, now()) as until, b.ended_at - nullif(c.lost, 0) * (b.ended_at - b.started_at) as lost_at
        from blocks b left join costs c on c.run_id = b.run_id
        order by b.host, device_number(b.lane), b.lane, b.place_id, b.started_at, b.run_id
    loop
        if block.place_id is distinct from here then
            here := block.place_id;
            until := '{}';
        end if;
        line := coalesce((select min(n) from unnest(until) with ordinality as x (at, n) where at <= block.started_at),
                         cardinality(until) + 1);
        until[line] := coalesce(block.ended_at, 'infinity');
        lane := concat_ws(' ', case when line > 1 then 'same' end, case when several then block.host end, block.lane,
                          case when line > 2 then '(' || line || ')' end);
        color := block.color;
        run_id := block.run_id;
        foreach lost in array '{f,t}'::boolean[] loop
            continue when lost and block.lost_at is null;
            "time" := greatest(case when lost then block.lost_at else block.started_at end, ledger_states.start);
            ended := least(case when lost then block.until else coalesce(block.lost_at, block.until) end, ledger_states.stop);
            continue when ended <= "time";
            title := case when lost then 'lost ' || duration_text(extract(epoch from block.until - block.lost_at)::float8)
                          else concat_ws(' ', block.title, case when block.early then '✗' end) end;
            return next;
        end loop;
    end loop;
end $$;

-- Return how busy the lanes of runs were, from the first start to the last end of these runs in an interval; simulated GPUs
-- apart. No row without runs.
create or replace function bench_dashboard.ledger_use(p_runs text[], start timestamptz, stop timestamptz)
returns table (simulated boolean, runs bigint, lanes bigint, busy double precision, shared double precision)
language sql stable as $$
    with blocks as materialized (
        select b.*, greatest(b.started_at, ledger_use.start) as low, least(coalesce(b.ended_at, now()), ledger_use.stop) as high
        from ledger_blocks(p_runs) b
    ), bounds as (
        select simulated, count(distinct run_id) as runs, count(distinct place_id) as lanes, min(low) as low, max(high) as high
        from blocks where high > low group by simulated
    ), spans as (
        select b.simulated, s.runset_id, count(*) + max(s.others) as n,
               greatest(extract(epoch from least(coalesce(s.ended_at, now()), ledger_use.stop)
                                           - greatest(s.started_at, ledger_use.start)), 0) as seconds
        from blocks b join run_sets s using (run_id, place_id)
        group by b.simulated, s.runset_id, s.started_at, s.ended_at
    )
    select b.simulated, b.runs, b.lanes,
           (sum(seconds) / nullif(b.lanes * extract(epoch from b.high - b.low), 0))::float8,
           (coalesce(sum(seconds) filter (where n > 1), 0) / nullif(sum(seconds), 0))::float8
    from bounds b join spans using (simulated) group by b.simulated, b.runs, b.lanes, b.low, b.high order by b.simulated
$$;

-- Return a sentence on the use of the lanes of runs; no row without runs.
create or replace function bench_dashboard.ledger_sentence(p_runs text[], start timestamptz, stop timestamptz)
returns setof text language sql stable as $$
    select string_agg(format('%s %s on %s %s%s: in use for %s%% of the time%s.', runs,
                             case runs when 1 then 'run' else 'runs' end, lanes, case when simulated then 'simulated ' end,
                             case lanes when 1 then 'GPU or MIG instance' else 'GPUs and MIG instances' end,
                             round(100 * busy), case when shared > 0 then format(', shared for %s%% of that', round(100 * shared)) end),
                      ' ' order by simulated)
    from ledger_use(p_runs, ledger_sentence.start, ledger_sentence.stop) having count(*) > 0
$$;

-- Return the runs' own parts of lanes for a stacked chart, with the idle power of whole GPUs below them where `measure` is
-- `power`. The title marks values that are not a run's own. The last part of a run, which the runs beside it cost, has the tone `lost`; see
-- `run_costs`.
create or replace function bench_dashboard.ledger_chart(
    p_runs text[], measure text, start timestamptz, stop timestamptz, step_ms double precision, p_places integer[]
) returns table ("time" timestamptz, run_id text, title text, color text, stroke text, tone text, value double precision) language sql stable as $$
    with parts as materialized (
        select * from ledger_shares(p_runs, ledger_chart.measure, ledger_chart.start, ledger_chart.stop, ledger_chart.step_ms,
                                    p_places)
    ), titles as materialized (
        select * from titled_runs(p_runs)
    ), evenly as materialized (
        select run_id, bool_or(not own) as divided from parts group by run_id
    ), lost as materialized (
        select run_id, r.ended_at - c.lost * (r.ended_at - r.started_at) as since from run_costs(p_runs) c join runs r using (run_id)
        where c.lost > 0
    ), layers as materialized (
        select p.time, run_id, concat(t.title, case when e.divided then ' (even part)' end, case when p.time >= l.since then ': time lost' end)
               as title, t.color, t.stroke, case when p.time >= l.since then 'lost' else '' end as tone, p.value
        from parts p join titles t using (run_id) join evenly e using (run_id) left join lost l using (run_id)
        union all
        -- The lowest: series are ordered by their labels.
        select i.time, '', 'idle', '-', '-', '', i.value
        from ledger_idle(p_places, ledger_chart.start, ledger_chart.stop, ledger_chart.step_ms) i
        where ledger_chart.measure = 'power' and not exists (select from parts where quantity = 'gpu_power')
    ), usual as (
        select max(seconds) as seconds
        from (select percentile_disc(0.5) within group (order by seconds) as seconds
              from (select title, extract(epoch from time - lag(time) over (partition by title order by time)) as seconds
                    from layers) x
              where seconds > 0 group by title) y
    )
    -- All layers have the same times, for a stack. A run's first step begins with the run.
    select x.bin, run_id, title, color, stroke, tone, avg(value)
    from layers cross join usual
    cross join lateral (select date_bin(make_interval(secs => coalesce(seconds, 1)), time,
                                        timestamptz '2000-01-03 00:00:00+00') as bin) x
    group by x.bin, run_id, title, color, stroke, tone order by x.bin, title
$$;

-- Return the GPUs and MIG instances on which runs were placed, by name; of all hosts where null.
create or replace function bench_dashboard.ledger_lanes(hosts text[] default null)
returns table (place_id integer, host text, lane text) language sql stable as $$
    select l.place_id, l.host, d.device
    from places l join devices d using (place_id)
    where l.kind in ('gpu', 'instance') and l.origin = '' and (ledger_lanes.hosts is null or l.host = any(ledger_lanes.hosts))
      and exists (select from placements p where p.host = l.host and p.gpu_uuid = l.gpu_uuid and p.origin = ''
                  and p.gpu_instance_id is not distinct from l.gpu_instance_id)
    order by l.host, device_number(d.device), d.device, l.place_id
$$;
