-- What is to be known of a chart before its curves are compared.

-- Some of these words: the first of them, and how many there are besides.
create or replace function some_of(p_words text[]) returns text language sql immutable as $$
    select array_to_string(p_words[:6], ', ')
           || case when cardinality(p_words) > 6 then format(' and %s more', cardinality(p_words) - 6) else '' end
$$;

-- Whose figure it is, in words.
create or replace function scope_words(p_scope text) returns text language sql immutable as $$
    select case p_scope when 'process' then 'the run''s own'
                        when 'instance' then 'that of GPUs or MIG instances that the run had to itself'
                        when 'device' then 'that of GPUs that others used as well'
                        else 'that of the whole host' end
$$;

-- Which series `run_chart` draws for runs and quantities: in which scope, from which metrics, and whether it is left out. Of
-- runs that have ended also for which share of their time it was measured, how many seconds apart, and whether not at all.
create or replace function chart_lines(p_runs text[], p_quantities text[], p_max_series integer,
                                       p_scopes text[] default null)
returns table (run_id text, run text, quantity text, scope text, metrics text, share float8, every float8, empty boolean,
               drawn boolean)
language sql stable as $$
    with asked as materialized (
        select r.run_id, run_label(w, r) as run, r.summarised, r.ended_at is not null as ended,
               p_scopes is not null or mostly_alone(r.run_id) as alone,
               extract(epoch from r.ended_at - r.started_at)::float8 as lasted
        from runs r join workloads w using (workload_id) where r.run_id = any(p_runs) and r.started_at is not null
    ), figures as materialized (
        -- Not of runs that go on: each time all of their samples would be read.
        select run_id, quantity, scope, metric, device, n, seconds, coalesce(seen, seconds) as seen
        from run_summary_of(array(select run_id from asked where ended), p_quantities)
    ), found as (
        select distinct a.run_id, s.quantity, rs.scope, s.metric, s.device, coalesce(m.preference, 1) as preference,
               dense_rank() over (partition by a.run_id, s.quantity order by
                   case when p_scopes is null then scope_width(rs.scope, a.alone) else 0 end) as width
        from asked a join run_sets rs using (run_id)
        join series s on s.place_id = rs.place_id and s.quantity = any(p_quantities)
        left join metrics m on m.metric_id = s.metric_id
        where p_scopes is null or rs.scope = any(p_scopes)
    ), sources as (
        select f.*, sum(coalesce(x.seconds, 0)) over (partition by f.run_id, f.quantity, f.scope, f.metric) as seconds
        from found f left join figures x
             on (x.run_id, x.quantity, x.scope, x.metric, coalesce(x.device, ''))
                = (f.run_id, f.quantity, f.scope, f.metric, coalesce(f.device, ''))
        where width = 1
    ), covering as (
        select *, not summarised or covers(seconds, max(seconds) over (partition by run_id, quantity, scope)) as covering
        from sources join asked using (run_id)
    ), ranked as (
        select *, dense_rank() over (partition by run_id, quantity, scope, case when quantity like 'gpu\_%' then device end
                                     order by covering desc, preference, metric) as rank
        from covering
    ), chosen as (
        select run_id, run, ended, lasted, quantity, scope, string_agg(distinct metric, ' and ') as metrics
        from ranked where rank = 1 group by run_id, run, ended, lasted, quantity, scope
    )
    select c.run_id, c.run, c.quantity, c.scope, c.metrics, x.seen / nullif(c.lasted, 0), x.seen / nullif(x.n, 0),
           c.ended and coalesce(x.seconds, 0) = 0,
           p_max_series is null or dense_rank() over (partition by c.quantity order by c.run, c.run_id) <= p_max_series
    from chosen c left join figures x
         on x.metric is null and (x.run_id, x.quantity, x.scope) = (c.run_id, c.quantity, c.scope)
$$;

-- One row for each thing to be known: what it is about, and a sentence, which names runs in the order in which they are given.
-- `p_from` and `p_to` are the range of time that an aligned chart shows, in 1970; null where that does not matter.
create or replace function chart_notice(p_runs text[], p_quantities text[], p_max_series integer default 40,
                                        p_from timestamptz default null, p_to timestamptz default null,
                                        p_scopes text[] default null)
returns table (about text, notice text) language sql stable as $$
    with asked as materialized (
        select r.run_id, run_label(w, r) as run, r.status, r.started_at, r.summarised, m.simulated, m.shared,
               replace(nullif(r.profilers, ''), '+', ' and ') as profilers, array_position(p_runs, r.run_id) as nth
        from runs r join workloads w using (workload_id) left join run_marks m using (run_id) where r.run_id = any(p_runs)
    ), lines as materialized (
        select l.*, a.nth from chart_lines(p_runs, p_quantities, p_max_series, p_scopes) l join asked a using (run_id)
    ), measured as (
        select *, count(*) over (partition by quantity, scope) < count(*) over one as scopes_differ,
               count(*) over (partition by quantity, metrics) < count(*) over one as sources_differ,
               max(every) over one > 1.5 * min(every) over one as intervals_differ,
               trim_scale(round(every::numeric, 1 - floor(log(every))::integer)) as seconds
        from lines where not empty window one as (partition by quantity)
    ), trusted as materialized (
        -- Not of runs that go on: each time all of their samples would be read.
        select a.run, a.nth, q.overhead,
               (select max(mean) from stored_summaries s
                where s.run_id = a.run_id and s.quantity = 'gpu_throttled' and s.metric is null) as held_down
        from asked a join run_quality q using (run_id) where a.summarised
    ), shown as (
        select longest_run(p_runs) as longest, extract(epoch from p_to - p_from) as seconds
    ), notices as (
        select 0 as rank, 'choice' as about, null as quantity,
               case when exists (select from runs) then 'No run is chosen: choose an experiment, a workload and runs above.'
                    else 'There is no run yet: `bench demo` makes some, `bench schedule FILE.csv` runs yours.' end as words
        where not exists (select from asked)
        union all
        select 0, 'behind', null, words from replica_notice() as words where words is not null
        union all
        select 1, 'left out', quantity,
               format('%s runs have it, a chart draws %s. Left out: %s. Choose fewer runs.', count(*), p_max_series,
                      some_of(array_agg(run order by nth) filter (where not drawn)))
        from (select distinct quantity, run, nth, drawn from lines) each group by quantity having not bool_and(drawn)
        union all
        select 1, 'range', null,
               format('The charts show %s, the longest run lasts %s: "Fit to the longest run" shows all of it.',
                      make_interval(secs => round(seconds)), make_interval(secs => round(longest::numeric)))
        from shown where seconds < 0.98 * longest or seconds > 3 * longest
        union all
        select 2, 'missing', q.quantity, format('not measured in %s.', some_of(array_agg(a.run order by a.nth)))
        from unnest(p_quantities) as q (quantity) cross join asked a
        where a.started_at is not null
          and not exists (select from measured m where m.run_id = a.run_id and m.quantity = q.quantity)
        group by q.quantity
        union all
        select 3, 'scope', quantity,
               scope_words(scope) || case when scopes_differ then ' in ' || some_of(array_agg(run order by nth)) else '' end || '.'
        from measured where scopes_differ or scope in ('device', 'host') group by quantity, scope, scopes_differ
        union all
        select 4, 'source', quantity, format('read from %s in %s.', metrics, some_of(array_agg(run order by nth)))
        from measured where sources_differ group by quantity, metrics
        union all
        select 5, 'interval', quantity, format('read every %s s in %s.', seconds, some_of(array_agg(run order by nth)))
        from measured where intervals_differ and every is not null group by quantity, seconds
        union all
        select 6, 'window', quantity,
               format('measured for a part of the time only in %s.',
                      some_of(array_agg(format('%s (%s%%)', run, round(share * 100)) order by nth)))
        from measured where share < 0.9 group by quantity
        union all
        select 7, 'meaning', 'gpu_utilization',
               format('counts the time in which any kernel ran, however little of the GPU it used; gpu_sm_active, measured in '
                      '%s, says how busy the GPU was.', some_of(array_agg(run order by nth)))
        from (select distinct l.run, l.nth from lines l
              join chart_lines(case when 'gpu_utilization' = any(p_quantities) then p_runs end, '{gpu_sm_active}', null) better
                   using (run_id)
              where l.quantity = 'gpu_utilization' and not better.empty) each
        having count(*) > 0
        union all
        select 8, 'throttled', null,
               format('something kept the clocks of the GPUs down for a part of the time in %s.',
                      some_of(array_agg(format('%s (%s%%)', run, greatest(round(held_down * 100), 1)) order by nth)))
        from trusted where held_down > 0 having count(*) > 0
        union all
        select 9, 'overhead', null,
               format('the exporters took more than 1%% of the host''s cores in %s.',
                      some_of(array_agg(format('%s (%s%%)', run, round(overhead::numeric * 100, 1)) order by nth)))
        from trusted where overhead > 0.01 having count(*) > 0
        union all
        select 10, 'shared', null,
               format('%s ran beside other runs on the same GPU or host.', some_of(array_agg(run order by nth)))
        from asked where shared having count(*) > 0
        union all
        select 11, '* simulated', null,
               format('%s ran on simulated GPUs: what is said of these is made up.', some_of(array_agg(run order by nth)))
        from asked where simulated having count(*) > 0
        union all
        select 12, '◆ profiled', null,
               format('%s ran under a profiler (%s), which slows %s down.', some_of(array_agg(run order by nth)), profilers,
                      case count(*) when 1 then 'it' else 'them' end)
        from asked where profilers is not null group by profilers
        union all
        select 13, 'goes on', null, format('%s: figures are as of now.', some_of(array_agg(run order by nth)))
        from asked where status = 'running' having count(*) > 0
        union all
        select 14, 'to come', null, format('%s has not started.', some_of(array_agg(run order by nth)))
        from asked where started_at is null having count(*) > 0
    )
    select about, concat_ws(': ', string_agg(quantity, ', ' order by quantity), words) as notice
    from notices group by rank, about, words order by rank, notice
$$;

-- The same for workloads, of which a chart draws so many, and the ranges of the first `p_bands` alone.
create or replace function workload_notice(p_workloads integer[], p_quantities text[], p_max_series integer default 40,
                                           p_bands integer default 8, p_from timestamptz default null,
                                           p_to timestamptz default null)
returns table (about text, notice text) language sql stable as $$
    with titles as (
        select workload, row_number() over (order by nth) as nth from workload_titles(p_workloads)
    )
    select 'left out', format('%s workloads are chosen, a chart draws %s. Left out: %s. Choose fewer workloads.', max(nth),
                              p_max_series, some_of(array_agg(workload order by nth) filter (where nth > p_max_series)))
    from titles having max(nth) > p_max_series
    union all
    select 'range', format('The ranges of the first %s workloads are drawn, of the others the means alone.', p_bands)
    from titles having max(nth) > p_bands
    union all
    select * from chart_notice(runs_of(p_workloads), p_quantities, null, p_from, p_to)
$$;
