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

-- Which series `run_chart` draws for runs and quantities: in which scope, from which metrics, and whether it is left out.
-- From the dimension tables and from what is stored of runs that have ended.
create or replace function chart_lines(p_runs text[], p_quantities text[], p_max_series integer)
returns table (run_id text, run text, quantity text, scope text, metrics text, seconds float8, share float8, drawn boolean)
language sql stable as $$
    with asked as materialized (
        select r.run_id, run_label(w, r) as run, r.summarised, mostly_alone(r.run_id) as alone,
               extract(epoch from coalesce(r.ended_at, now()) - r.started_at)::float8 as lasted
        from runs r join workloads w using (workload_id) where r.run_id = any(p_runs) and r.started_at is not null
    ), found as (
        select distinct a.run_id, a.run, a.summarised, a.lasted, s.quantity, rs.scope, s.metric,
               coalesce(m.preference, 1) as preference,
               dense_rank() over (partition by a.run_id, s.quantity order by scope_width(rs.scope, a.alone)) as width
        from asked a join run_sets rs using (run_id)
        join series s on s.place_id = rs.place_id and s.quantity = any(p_quantities)
        left join metrics m on m.metric_id = s.metric_id
    ), measured as (
        select f.*, x.seconds, x.seconds / nullif(f.lasted, 0) as share,
               not f.summarised or covers(coalesce(x.seconds, 0), max(coalesce(x.seconds, 0)) over one) as covering
        from found f left join lateral (
            select max(seconds) as seconds from stored_summaries z
            where z.run_id = f.run_id and z.quantity = f.quantity and z.scope = f.scope and z.metric = f.metric
              and f.summarised) x on true
        where width = 1
        window one as (partition by f.run_id, f.quantity)
    ), chosen as (
        select distinct on (run_id, quantity) * from measured order by run_id, quantity, covering desc, preference, metric
    )
    select run_id, run, quantity, scope, metric, seconds, share,
           p_max_series is null or dense_rank() over (partition by quantity order by run, run_id) <= p_max_series
    from chosen
$$;

-- One row for each thing to be known: what it is about, and a sentence. `p_from` and `p_to` are the range of time that an
-- aligned chart shows, in 1970; null where that does not matter.
create or replace function chart_notice(p_runs text[], p_quantities text[], p_max_series integer default 40,
                                        p_from timestamptz default null, p_to timestamptz default null)
returns table (about text, notice text) language sql stable as $$
    with asked as materialized (
        select r.run_id, run_label(w, r) as run, r.status, r.started_at, r.simulated, r.profilers
        from runs r join workloads w using (workload_id) where r.run_id = any(p_runs)
    ), lines as materialized (
        select * from chart_lines(p_runs, p_quantities, p_max_series)
    ), quantities as (
        select unnest(p_quantities) as quantity where exists (select from asked)
    ), left_out as (
        select quantity, count(*) as runs, array_agg(run order by run) filter (where not drawn) as which
        from lines group by quantity having not bool_and(drawn)
    ), missing as (
        select q.quantity, array_agg(a.run order by a.run) as which
        from quantities q cross join asked a
        where a.started_at is not null
          and not exists (select from lines l where l.run_id = a.run_id and l.quantity = q.quantity)
        group by q.quantity
    ), scopes as (
        select quantity, scope, array_agg(run order by run) as which,
               count(*) over (partition by quantity) as several
        from lines group by quantity, scope
    ), sources as (
        select quantity, metrics, array_agg(run order by run) as which, count(*) over (partition by quantity) as several
        from lines group by quantity, metrics
    ), windows as (
        select quantity, array_agg(format('%s (%s%%)', run, round(share * 100)) order by run) as which
        from lines where share < 0.9 group by quantity
    ), shown as (
        select longest_run(p_runs) as longest, extract(epoch from p_to - p_from) as seconds
    ), notices as (
        select 0 as rank, 'choice' as about,
               case when exists (select from runs) then 'No run is chosen: choose an experiment, a workload and runs above.'
                    else 'There is no run yet: `bench demo` makes some, `bench schedule FILE.csv` runs yours.' end as notice
        where not exists (select from asked)
        union all
        select 1, 'left out', format('%s: %s runs have it, a chart draws %s. Left out: %s. Choose fewer runs.',
                                     string_agg(quantity, ', ' order by quantity), runs, p_max_series, some_of(which))
        from left_out group by runs, which
        union all
        select 1, 'range', format('The charts show %s, the longest run lasts %s: "Fit to the longest run" shows all of it.',
                                  make_interval(secs => round(seconds)), make_interval(secs => round(longest::numeric)))
        from shown where seconds < 0.98 * longest or seconds > 3 * longest
        union all
        select 2, 'missing', format('%s: not measured in %s.', string_agg(quantity, ', ' order by quantity), some_of(which))
        from missing group by which
        union all
        select 3, 'scope', format('%s: %s in %s.', string_agg(quantity, ', ' order by quantity), scope_words(scope),
                                  some_of(which))
        from scopes where several > 1 group by scope, which
        union all
        select 3, 'scope', format('%s: %s.', string_agg(quantity, ', ' order by quantity), scope_words(scope))
        from scopes where several = 1 and scope in ('device', 'host') group by scope
        union all
        select 4, 'source', format('%s: read from %s in %s.', string_agg(quantity, ', ' order by quantity), metrics,
                                   some_of(which))
        from sources where several > 1 group by metrics, which
        union all
        select 5, 'window', format('%s: measured for a part of the time only in %s.',
                                   string_agg(quantity, ', ' order by quantity), some_of(which))
        from windows group by which
        union all
        select 6, '* simulated', format('%s ran on simulated GPUs: what is said of these is made up.',
                                        some_of(array_agg(run order by run)))
        from asked where simulated having count(*) > 0
        union all
        select 7, '◆ profiled', format('%s ran under a profiler (%s), which slows it down.',
                                       some_of(array_agg(run order by run)), string_agg(distinct profilers, ', '))
        from asked where profilers <> '' having count(*) > 0
        union all
        select 8, 'goes on', format('%s: figures are as of now.', some_of(array_agg(run order by run)))
        from asked where status = 'running' having count(*) > 0
        union all
        select 9, 'to come', format('%s has not started.', some_of(array_agg(run order by run)))
        from asked where started_at is null having count(*) > 0
    )
    select about, notice from notices order by rank, notice
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
