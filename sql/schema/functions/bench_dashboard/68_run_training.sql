-- The training of one run on its page: its tensors, and its waits for data.

-- Return a reduction of tensors of a run in an interval, as `tensor_chart` has it: the mean, the least and the greatest value of
-- each step of time.
create or replace function bench_dashboard.run_tensors(
    p_run text, p_collection text, p_reduction text, p_names text[], p_over text,
    start timestamptz, stop timestamptz, step_ms double precision
) returns table ("time" timestamptz, name text, value double precision, low double precision, high double precision)
language sql stable as $$
    select min(time), name, avg(value), min(value), max(value)
    from tensor_chart(array[p_run], p_collection, p_reduction, p_names, p_over, run_tensors.start, run_tensors.stop)
    group by name, date_bin(make_interval(secs => greatest(run_tensors.step_ms, 1) / 1000), time,
                            timestamptz '2000-01-03 00:00:00+00')
    order by 1, 2
$$;

-- Return the names of tensors of a run with the lowest and with the highest last value of a reduction, half of `p_most` each.
create or replace function bench_dashboard.extreme_tensors(p_run text, p_collection text, p_reduction text, p_most integer)
returns text[] language plpgsql stable as $$
declare
    found text[];
begin
    perform check_reduction(p_reduction, null, null, p_collection);
    execute format($q$
        with latest as (
            select e.name, avg(e.x) as x
            from tensor_sets s
            cross join lateral (select v.%1$I as found from tensor_steps v
                                where v.run_id = s.run_id and v.tensor_set = s.tensor_set and v.%1$I is not null
                                order by v.step desc, v.time desc limit 1) v
            cross join lateral unnest(s.names, v.found) as e (name, x)
            where s.run_id = $1 and s.collection = $2 and e.x is not null group by e.name
        )
        select array_agg(name) from (
            select name, row_number() over (order by x, name) as low, row_number() over (order by x desc, name) as high
            from latest) ranked
        where low <= $3 / 2 or high <= $3 - $3 / 2$q$, p_reduction)
    into found using p_run, p_collection, p_most;
    return coalesce(found, '{}');
end $$;

-- Return the norms of the gradients of a run in an interval as powers of ten, for a heat map: a row for each tensor in the order
-- of the model, of at most `p_most`, and a value for each interval between two watched steps, or for `step_ms`.
create or replace function bench_dashboard.run_gradients(
    p_run text, p_most integer, start timestamptz, stop timestamptz, step_ms double precision
) returns table ("time" timestamptz, metric text, value double precision) language sql stable as $$
    with named as materialized (
        select name, nth, count(*) over () as n
        from (select name, row_number() over (order by min(nth), name) as nth
              from tensor_sets s cross join lateral unnest(s.names) with ordinality as t (name, nth)
              where s.run_id = p_run and s.collection = 'gradients' group by name) x
    ), drawn as materialized (
        select name, nth, lpad(nth::text, length(n::text), '0') || ' ' || name as metric
        from named where (nth - 1) % ceil(n / p_most::numeric)::integer = 0
    ), points as materialized (
        select c.time, d.metric, c.value
        from tensor_chart(array[p_run], 'gradients', 'l2', array(select name from drawn), null,
                          run_gradients.start, run_gradients.stop) c
        join drawn d using (name)
    ), pace as (
        select greatest(run_gradients.step_ms / 1000, 1.1 * extract(epoch from max(time) - min(time))
                                                      / greatest(count(distinct time) - 1, 1), 0.001)::float8 as seconds
        from points
    )
    select date_bin(make_interval(secs => seconds), time, timestamptz '2000-01-03 00:00:00+00') as bin, metric,
           log(avg(value))
    from points, pace where value > 0 group by bin, metric order by bin, metric
$$;

-- Return the share of the steps' time of a run that it waited for data, in each step of time; `step_times` has their time.
create or replace function bench_dashboard.run_waits(p_run text, start timestamptz, stop timestamptz, step_ms double precision)
returns table ("time" timestamptz, value double precision) language sql stable as $$
    select date_bin(make_interval(secs => greatest(run_waits.step_ms, 1000) / 1000), ended_at,
                    timestamptz '2000-01-03 00:00:00+00') as bin,
           least(sum(data_wait) / sum(ended - began), 1)
    from step_times(p_run, run_waits.start, run_waits.stop) where data_wait is not null
    group by bin having sum(ended - began) > 0 order by bin
$$;
