-- Last values of software metrics: the one computation for tables, verdicts, curves, comparisons and pictures.

-- Return the last value of software metrics in runs (of all keys where null): that of the greatest step, null where it was NaN or
-- infinite. `p_before` and `p_parts` limit each run, in the order of `p_runs`: to the time before, and to a part. One index lookup for
-- each run and key.
create or replace function bench_internal.last_values(p_runs text[], p_keys text[] default null, p_before timestamptz[] default null,
                                                      p_parts tstzmultirange[] default null)
returns table (run_id text, key text, step bigint, value float8) language sql stable as $$
    with recursive requested as materialized (
        select distinct on (run_id) * from unnest(p_runs, p_before, p_parts) as r (run_id, before, part)
    ), logged (run_id, key) as (
        select r.run_id, (select min(s.key) from software_metrics s where s.run_id = r.run_id) from requested r where p_keys is null
        union all
        select l.run_id, (select min(s.key) from software_metrics s where s.run_id = l.run_id and s.key > l.key)
        from logged l where l.key is not null
    ), given as (
        select run_id, key from logged where key is not null
        union all
        select run_id, k.key from requested cross join (select distinct unnest(p_keys) as key) k
    )
    select r.run_id, g.key, l.step, l.value
    from given g join requested r using (run_id) cross join lateral (
        select step, value from software_metrics s
        where s.run_id = r.run_id and s.key = g.key and (before is null or time < before) and (part is null or part @> time)
        order by step desc, time desc limit 1) l
$$;

-- Return a last value as text with four significant digits; NaN for one that was NaN or infinite.
create or replace function bench_internal.last_text(p_value float8) returns text language sql immutable as $$
    select coalesce(four_digits(p_value)::text, 'NaN')
$$;
