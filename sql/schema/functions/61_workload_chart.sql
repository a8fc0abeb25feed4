-- The runs that count as a workload's: of each position the latest attempt.
create or replace function workload_runs(workloads integer[]) returns setof runs language sql stable as $$
    select distinct on (workload_id, position) * from runs where workload_id = any(workloads)
    order by workload_id, position, attempt desc
$$;

-- Which runs of each workload were there at the same time, and when the first of them began: a workload that is repeated, in
-- whole or in part, goes through several passes.
create or replace function passes(p_runs text[])
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

-- When the pass of its workload began that a run belongs to.
create or replace function pass_start(p_run text) returns timestamptz language sql stable as $$
    select started_at from passes(array(select other.run_id from runs r join runs other using (workload_id)
                                        where r.run_id = p_run)) where run_id = p_run
$$;

-- What a workload is called in a legend: 20/1, and its runs' names, each once and no more than three.
create or replace function workload_label(p_workload integer) returns text language sql stable as $$
    select concat_ws(' ', w.experiment_id || '/' || w.workload,
                     (select string_agg(case when rank <= 3 then name else '…' end, ', ' order by rank)
                      from (select name, row_number() over (order by min(position)) as rank
                            from workload_runs(array[p_workload]) where name <> '' group by name) names
                      where rank <= 4))
    from workloads w where workload_id = p_workload
$$;

-- The statement that `workload_chart` executes.
create or replace function workload_chart_statement(
    workloads integer[], quantities text[], start timestamptz, stop timestamptz, step_ms double precision,
    aligned boolean, max_series integer, scopes text[] default null, align text default 'time'
) returns text language sql stable as $$
    select chart_statement(array(select run_id from workload_runs($1)), $2, $3, $4, $5, $6, $7, $8, false, $9, true)
$$;

-- Workloads as charts draw them, each by the mean of its runs, of every position the latest attempt.
--
-- Returns one row a point, as `run_chart` does, which says more of the parameters that both have. `value` is the mean over the
-- `runs` that there are figures of at that time: of power and bytes as well, so that a workload's line is what one run of it
-- had. `low` and `high` are the least and greatest sample in any of them.
--
-- workloads   workload_id
-- max_series  how many workloads times quantities at most
-- scopes      null: the narrowest of each run; the answer names the widest of them. Else a series each.
create or replace function workload_chart(
    workloads integer[], quantities text[], start timestamptz, stop timestamptz, step_ms double precision,
    aligned boolean, max_series integer, scopes text[] default null, align text default 'time'
) returns table ("time" timestamptz, workload text, quantity text, scope text, value double precision,
                 low double precision, high double precision, runs integer)
language plpgsql stable set enable_nestloop = off set jit = off as $$  -- as in `run_chart`
begin
    return query execute workload_chart_statement($1, $2, $3, $4, $5, $6, $7, $8, $9);
end $$;
