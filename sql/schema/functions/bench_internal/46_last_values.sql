-- Names and last values of software metrics: the one computation for tables, verdicts, curves, comparisons and pictures.

-- Return the names of software metrics by their keys in MLflow. A key that is the name of a quantity of the catalog, of a computed
-- value, or of a quantity measured for these runs is `logged_NAME`: the measured value keeps its name.
create or replace function bench_internal.logged_names(p_keys text[], p_runs text[]) returns table (key text, name text)
language sql stable as $$
    select given, name from own_names(p_keys, 'logged_', array(
        select quantity from series
        where quantity = any(array(select regexp_replace(unnest(p_keys), '^(logged_)+', '')))
          and place_id in (select place_id from run_sets where run_id = any(p_runs))))
$$;

-- Return the keys in MLflow of software metrics by their names, see `logged_names`. A name that no key has is missing.
create or replace function bench_internal.named_keys(p_names text[], p_runs text[]) returns table (key text, name text)
language sql stable as $$
    select key, name from logged_names(array(select unnest(p_names) as n union select regexp_replace(n, '^logged_', '') from unnest(p_names) n),
                                       p_runs)
    where name = any(p_names)
$$;

-- Return the last value of software metrics in runs, by name (of all where `p_keys` is null): that of the greatest step, null where it was NaN or
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
    ), given as materialized (
        select run_id, key from logged where key is not null
    ), named as materialized (
        select key, name from logged_names(array(select distinct key from given), p_runs) where p_keys is null
        union all
        select key, name from named_keys(p_keys, p_runs) where p_keys is not null
    ), wanted as (
        select run_id, key, name from given join named using (key)
        union all
        select run_id, key, name from requested cross join named where p_keys is not null
    )
    select r.run_id, g.name, l.step, l.value
    from wanted g join requested r using (run_id) cross join lateral (
        select step, value from software_metrics s
        where s.run_id = r.run_id and s.key = g.key and (before is null or time < before) and (part is null or part @> time)
        order by step desc, time desc limit 1) l
$$;

-- Return a last value as text with four significant digits; NaN for one that was NaN or infinite.
create or replace function bench_internal.last_text(p_value float8) returns text language sql immutable as $$
    select coalesce(four_digits(p_value)::text, 'NaN')
$$;
