-- Charts of tensors: a reduction of some of them over the steps of runs.

-- Return the SQL expression of a statistic over the elements `x` of an array, or over the values `x` of processes.
create or replace function bench_internal.tensor_statistic(p_over text) returns text language plpgsql immutable as $$
begin
    return case p_over when 'mean' then 'avg(x)' when 'min' then 'min(x)' when 'max' then 'max(x)'
                       when 'median' then 'percentile_cont(0.5) within group (order by x)' end;
end $$;

-- Raise an error for an unknown reduction, or an unknown statistic over tensors.
create or replace function bench_internal.check_reduction(p_reduction text, p_over text, p_names text[], p_collection text)
returns void language plpgsql immutable as $$
declare
    reductions constant text[] := '{min,max,mean,std,l1,l2,zeros,nonfinite,saturated,update_ratio,p05,p25,p50,p75,p95,norm}';
begin
    if p_reduction is null or p_reduction <> all(reductions) then
        raise exception 'reduction is %, but must be one of %', quote_nullable(p_reduction), array_to_string(reductions, ', ')
        using errcode = 'invalid_parameter_value';
    elsif p_over <> all('{mean,median,min,max}'::text[]) then
        raise exception 'over is %, but must be mean, median, min or max', quote_literal(p_over)
        using errcode = 'invalid_parameter_value';
    elsif p_reduction = 'norm' and (p_names is not null or p_over is not null) then
        raise exception 'norm is that of a whole collection: leave out names and over; l2 is the norm of one tensor'
        using errcode = 'invalid_parameter_value';
    elsif p_collection is null and p_over is null then
        raise exception 'collection is null, which goes with over alone: tensors of several collections share their names'
        using errcode = 'invalid_parameter_value';
    end if;
end $$;

-- Return a reduction of tensors over the steps of runs, in the order of runs, tensors and time.
--
-- A row is a tensor at a step, with the time at which the step had ended. The processes of a run count as one: `value` is their
-- mean; of `min`, `max` and `nonfinite` it is the extreme. A step that a run repeats has a row for each time.
--
-- An array is read by position, and no other one: a chart costs the bytes of one reduction of its sets.
--
-- runs        run ids, ours or MLflow's
-- collection  collection of tensors; null for all of them, with `over`
-- reduction   a reduction of `tensor_stats`, or `norm`: the l2 norm of all tensors of the collection together
-- names       names of tensors; null for all
-- over        a statistic over these tensors instead of each: `mean`, `median`, `min` or `max`; `name` is null then. Sets of
--             several models in one process count alike.
-- start, stop interval of time; null for all
create or replace function tensor_chart(
    runs text[], collection text, reduction text, names text[] default null, over text default null,
    start timestamptz default null, stop timestamptz default null
) returns table (run_id text, name text, step bigint, "time" timestamptz, elapsed double precision, value double precision)
language plpgsql stable set jit = off as $body$
#variable_conflict use_column
declare
    each text;      -- name and value of each tensor in a row of `found`
    extreme constant text := case when tensor_chart.reduction in ('min', 'max') then tensor_chart.reduction
                                  when tensor_chart.reduction = 'nonfinite' or tensor_chart.over = 'max' then 'max'
                                  when tensor_chart.over = 'min' then 'min' else 'avg' end;
begin
    perform check_reduction(tensor_chart.reduction, tensor_chart.over, tensor_chart.names, tensor_chart.collection);
    if tensor_chart.reduction = 'norm' then
        each := $q$select null::text as name, found as x$q$;
    elsif tensor_chart.over is not null then
        each := format('(select %s from unnest(found) with ordinality as e (x, nth) where positions is null or nth = any(positions))',
                       tensor_statistic(tensor_chart.over));
        if tensor_chart.over = 'max' and tensor_chart.reduction in ('zeros', 'nonfinite', 'saturated') then
            -- Shares are mostly zeros, which a comparison finds ten times as fast.
            each := format('case when 0::real <> any(found) or positions is not null then %s when 0::real = any(found) then 0 end', each);
        end if;
        each := format('select null::text as name, %s as x', each);
    elsif tensor_chart.names is null then
        each := $q$select e.name, e.x from unnest(set_names, found) as e (name, x)$q$;
    else
        -- `array_cat` reads the array from storage once, and not again for each element; the condition keeps it the outer one.
        each := $q$select p.name, whole[p.nth] as x
                   from (select array_cat(found, '{}') as whole offset 0) w
                   cross join lateral unnest(case when whole is not null then positions end, set_names) as p (nth, name)$q$;
    end if;
    return query execute format($q$
        with sets as materialized (
            select r.run_id, r.started_at, s.tensor_set, p.positions,
                   case when $3 is null then s.names else p.names end as set_names
            from runs r join tensor_sets s using (run_id)
            cross join lateral (
                select array_agg(nth::integer order by nth) as positions, array_agg(t.name order by nth) as names
                from unnest(s.names) with ordinality as t (name, nth) where t.name = any($3)) p
            where (r.run_id = any($1) or r.mlflow_run_id = any($1)) and ($2 is null or s.collection = $2)
              and ($3 is null or p.positions is not null)
        ), steps as (
            select s.run_id, s.started_at, s.set_names, s.positions, v.pid, v.step, v.time, v.%1$I as found,
                   row_number() over (partition by s.run_id, s.tensor_set, v.pid, v.step order by v.time) as round
            from sets s join tensor_steps v using (run_id, tensor_set)
            where v.%1$I is not null and v.time >= coalesce($4, '-infinity') and v.time < coalesce($5, 'infinity')
        ), processes as (
            select run_id, started_at, pid, step, round, name, min(time) as time, %3$s as x
            from steps cross join lateral (%2$s offset 0) elements  -- or else a sort would carry the arrays
            where x is not null group by run_id, started_at, pid, step, round, name
        )
        select run_id, name, step, min(time), extract(epoch from min(time) - started_at)::float8, %4$s(x)::float8
        from processes group by run_id, started_at, step, round, name
        order by run_id, name, 4$q$,
        tensor_chart.reduction, each,
        case when tensor_chart.reduction = 'norm' then 'sqrt(sum(x * x))' else extreme || '(x)' end, extreme)
    using tensor_chart.runs, tensor_chart.collection, tensor_chart.names, tensor_chart.start, tensor_chart.stop;
end $body$;

-- Return the curves of `tensor_chart` over the seconds since each run's start, each with at most `p_points` points. A point is
-- the mean of the values up to the next point, with the least and the greatest of them.
create or replace function bench_internal.tensor_curves(
    p_runs text[], p_collection text, p_reduction text, p_names text[], p_over text, p_points integer
) returns table (run_id text, name text, x float8, value float8, low float8, high float8) language sql stable as $$
    with rows as materialized (
        select * from tensor_chart(p_runs, p_collection, p_reduction, p_names, p_over)
    ), wide as (
        select run_id, name, greatest(max(elapsed) - min(elapsed), 1e-9) / p_points as step, min(elapsed) as first,
               count(*) as n
        from rows group by run_id, name
    )
    select r.run_id, r.name, min(r.elapsed), avg(r.value), min(r.value), max(r.value)
    from rows r join wide w on w.run_id = r.run_id and w.name is not distinct from r.name
    group by r.run_id, r.name, case when w.n > p_points then floor((r.elapsed - w.first) / w.step) else r.elapsed end
    order by 1, 2, 3
$$;

-- Return the collections of tensors of runs, or of all where null: their names in the order of the sets, and the reductions that
-- their first and last steps have.
create or replace function bench_internal.tensor_collections(p_runs text[])
returns table (run_id text, collection text, names text[], reductions text[]) language sql stable as $$
    with reduced as materialized (
        select s.run_id, s.collection, s.tensor_set, s.names, x.reductions
        from tensor_sets s cross join lateral (
            select array_agg(distinct reduction) as reductions
            from (select * from (select v.* from tensor_steps v
                                 where v.run_id = s.run_id and v.tensor_set = s.tensor_set order by v.step, v.time limit 2) first
                  union all
                  select * from (select v.* from tensor_steps v
                                 where v.run_id = s.run_id and v.tensor_set = s.tensor_set
                                 order by v.step desc, v.time desc limit 1) last) v
            cross join lateral (values
                ('norm', v.norm is not null), ('min', v.min is not null), ('max', v.max is not null),
                ('mean', v.mean is not null), ('std', v.std is not null), ('l1', v.l1 is not null), ('l2', v.l2 is not null),
                ('zeros', v.zeros is not null), ('nonfinite', v.nonfinite is not null),
                ('saturated', v.saturated is not null), ('update_ratio', v.update_ratio is not null),
                ('p05', v.p05 is not null), ('p25', v.p25 is not null), ('p50', v.p50 is not null),
                ('p75', v.p75 is not null), ('p95', v.p95 is not null)) as r (reduction, there)
            where there) x
        where (p_runs is null or s.run_id = any(p_runs)) and x.reductions is not null
    )
    select c.run_id, c.collection,
           array(select name from reduced e cross join lateral unnest(e.names) with ordinality as n (name, nth)
                 where e.run_id = c.run_id and e.collection = c.collection group by name order by min(n.nth), name),
           array(select distinct one from reduced e cross join lateral unnest(e.reductions) as one
                 where e.run_id = c.run_id and e.collection = c.collection order by one)
    from (select distinct run_id, collection from reduced) c order by 1, 2
$$;
