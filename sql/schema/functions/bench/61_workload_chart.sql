-- Return the runs that count for workloads: the latest attempt at each position.
create or replace function bench_internal.workload_runs(workloads integer[]) returns setof runs language sql stable as $$
    select distinct on (workload_id, position) * from runs where workload_id = any(workloads)
    order by workload_id, position, attempt desc
$$;

-- Return the pass of each run: the runs of a workload that ran at the same time, and the start of the first. A workload that is
-- repeated, in whole or in part, has several passes.
create or replace function bench_internal.passes(p_runs text[])
returns table (run_id text, workload_id integer, pass bigint, started_at timestamptz) language sql stable as $$
    with ordered as (
        select run_id, workload_id, started_at,
               started_at >= max(coalesce(ended_at, 'infinity')) over (
                   partition by workload_id order by started_at, run_id rows between unbounded preceding and 1 preceding) as apart
        from runs where run_id = any(p_runs) and started_at is not null
    ), numbered as (
        select *, count(*) filter (where apart) over (partition by workload_id order by started_at, run_id) as pass from ordered
    )
    select run_id, workload_id, pass, min(started_at) over (partition by workload_id, pass) from numbered
$$;

-- Return the start of a run's pass.
create or replace function bench_internal.pass_start(p_run text) returns timestamptz language sql stable as $$
    select started_at from passes(array(select other.run_id from runs r join runs other using (workload_id)
                                        where r.run_id = p_run)) where run_id = p_run
$$;

-- Return a workload's name in a legend: 20/1, up to three distinct names of its runs or the first and the number of the others, and
-- their ways of sharing a GPU.
create or replace function bench_internal.workload_label(p_workload integer) returns text language sql stable as $$
    select concat_ws(' ', w.experiment_id || '/' || w.workload,
                     (select case when count(*) <= 3 then string_agg(name, ', ' order by first)
                                  else format('%s and %s others', (array_agg(name order by first))[1], count(*) - 1) end
                      from (select name, min(position) as first
                            from workload_runs(array[p_workload]) where name <> '' group by name) names),
                     '· ' || (select string_agg(distinct collocation, ', ') from workload_runs(array[p_workload])
                              where collocation not in ('-', '')))
    from workloads w where workload_id = p_workload
$$;

-- Return the statement that `workload_chart` executes.
create or replace function bench_internal.workload_chart_statement(
    workloads integer[], quantities text[], start timestamptz, stop timestamptz, step_ms double precision,
    aligned boolean, max_series integer, scopes text[] default null, align text default 'time', parts jsonb default null
) returns text language sql stable as $$
    select chart_statement(array(select run_id from workload_runs($1)), $2, $3, $4, $5, $6, $7, $8, false, $9, true, $10)
$$;

-- Return points of workloads: each the mean over its runs, with the latest attempt at each position.
--
-- Returns a row per point, with the parameters of `run_chart`. `value` is the mean over the `runs` that have values at that
-- time, also for power and bytes: a workload's line shows one average run. `low` and `high` are the minimum and maximum of any
-- run.
--
-- workloads   workload_id
-- max_series  maximum number of workloads times quantities
-- scopes      null: the narrowest scope of each run; the result names the widest of them. Else a series per scope.
create or replace function workload_chart(
    workloads integer[], quantities text[], start timestamptz, stop timestamptz, step_ms double precision,
    aligned boolean, max_series integer, scopes text[] default null, align text default 'time', parts jsonb default null
) returns table ("time" timestamptz, workload text, quantity text, scope text, value double precision,
                 low double precision, high double precision, runs integer)
language plpgsql stable set enable_nestloop = off set jit = off as $$  -- as in `run_chart`
begin
    return query execute workload_chart_statement($1, $2, $3, $4, $5, $6, $7, $8, $9, $10);
end $$;
