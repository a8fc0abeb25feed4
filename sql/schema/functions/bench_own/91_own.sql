-- Data that `bench_reader_own` sees: the runs of the user who is logged in, and only the existence of other runs. Row-level
-- security is no option: it excludes continuous aggregates and the columnstore.
--
-- Schema `bench_own` has a view of the same name for each relation about runs. With `bench_own` first on the search path, every
-- function and query reads these views with the user's own rights. A security barrier alone would not suffice: EXPLAIN shows
-- actual and estimated row counts of a user's condition below it. So
--
-- * most views begin at `mine()`, and reach into a table by one key (`offset 0` keeps other conditions out): they read no row
--   of another user. Samples are read by series and time, which reveals their existence alone.
-- * each further column depends on a volatile function, so that no condition on it moves below the barrier.
create schema if not exists bench_own;

-- Return the runs of the user who is logged in: their owner is this login, or a role granted to it.
create or replace function bench_own.mine() returns setof text
language sql stable security definer rows 100 set search_path = pg_catalog, pg_temp as $$
    select run_id from bench.runs
    where owner = any(array(select rolname::text from pg_roles where pg_has_role(session_user, oid, 'member')))
$$;

-- Return the run sets of these runs, which tag their samples.
create or replace function bench_own.sets() returns setof integer
language sql stable security definer rows 500 set search_path = pg_catalog, pg_temp as $$
    select runset_id from bench.run_sets where run_id in (select bench_own.mine())
$$;

-- Return the resources of these runs.
create or replace function bench_own.my_places() returns setof integer
language sql stable security definer rows 200 set search_path = pg_catalog, pg_temp as $$
    select distinct place_id from bench.run_sets where run_id in (select bench_own.mine())
$$;

-- A relation outside this list and the ones below is closed. Run sets reveal the number of other runs; series omit labels that
-- name jobs or containers of other users on the same device, and all labels of metrics outside the catalog.
do $$
declare
    guarded constant text := 'case when random() < 2 then %1$s end as %2$I';
    one record;
    relation text;
    columns text;
begin
    for one in
        select views.*,
               case when to_regclass('bench.' || views.relation) is null then 'bench_internal' else 'bench' end as schema
        from (values
            (1, 'runs', 'run_id', 'bench_own.mine()'), (1, 'placements', 'run_id', 'bench_own.mine()'),
            (1, 'software_metrics', 'run_id', 'bench_own.mine()'), (1, 'stored_summaries', 'run_id', 'bench_own.mine()'),
            (1, 'spans', 'run_id', 'bench_own.mine()'), (1, 'rule_firings', 'run_id', 'bench_own.mine()'),
            (1, 'rule_actions', 'run_id', 'bench_own.mine()'), (1, 'highlights', 'run_id', 'bench_own.mine()'),
            (1, 'stored_contention', 'run_id', 'bench_own.mine()'),
            (1, 'stored_duplicates', 'run_id', 'bench_own.mine()'), (1, 'run_sets', 'run_id', 'bench_own.mine()'),
            (1, 'accounting', 'run_id', 'bench_own.mine()'), (1, 'profiles', 'run_id', 'bench_own.mine()'),
            (1, 'profile_entries', 'run_id', 'bench_own.mine()'), (1, 'profile_stacks', 'run_id', 'bench_own.mine()'),
            (1, 'tensor_sets', 'run_id', 'bench_own.mine()'), (1, 'tensor_steps', 'run_id', 'bench_own.mine()'),
            (1, 'tensor_problems', 'run_id', 'bench_own.mine()'),
            (2, 'jobs', 'job', '(select distinct job from bench_own.runs)'),
            (1, 'places', 'place_id', 'bench_own.my_places()'), (1, 'series', 'place_id', 'bench_own.my_places()'),
            (2, 'targets', 'target_id', '(select distinct target_id from bench_own.series)'),
            (2, 'workloads', 'workload_id', '(select distinct workload_id from bench_own.runs)'),
            (3, 'experiments', 'experiment_id', '(select distinct experiment_id from bench_own.workloads)')
        ) as views (nth, relation, key, source) order by nth
    loop
        select string_agg(
            case when attname = one.key then format('own.%I', attname)
                 when (one.relation, attname) = ('run_sets', 'others') then format(guarded, 'x.others + (
                     select count(*) from bench.run_sets o
                     where o.runset_id = x.runset_id and o.run_id not in (select bench_own.mine()))::integer', attname)
                 when (one.relation, attname) = ('series', 'labels') then format(guarded, $q$case when x.metric_id is not null
                     then x.labels - '{hpc_job,job,pod,pod_name,pod_uid,namespace,container,container_name}'::text[]
                     else '{}' end$q$, attname)
                 else format(guarded, format('x.%I', attname), attname) end, ', ' order by attnum)
        into columns from pg_attribute
        where attrelid = format('%I.%I', one.schema, one.relation)::regclass and attnum > 0 and not attisdropped;
        execute format('create or replace view bench_own.%1$I with (security_barrier) as
                        select %2$s from %3$s as own (%4$I)
                        cross join lateral (select * from %5$I.%1$I t where t.%4$I = own.%4$I offset 0) x',
                       one.relation, columns, one.source, one.key, one.schema);
    end loop;
    for relation in
        select name from unnest(array['bench.samples', 'bench_internal.bounded_samples']) name
        union all
        select format(name, level)
        from unnest(array['10s', '1m', '10m']) level,
             unnest(array['bench.samples_%s', 'bench_internal.samples_%s_stored', 'bench_internal.packed_%s']) name
        where to_regclass(format(name, level)) is not null
    loop
        select string_agg(case when attname in ('value', 'area', 'min', 'max') then format(guarded, quote_ident(attname), attname)
                               else quote_ident(attname) end, ', ' order by attnum)
        into columns from pg_attribute
        where attrelid = relation::regclass and attnum > 0 and not attisdropped;
        -- `coalesce` keeps it a filter of the scan: a join would run after the scan, whose row count EXPLAIN would show.
        execute format('create or replace view bench_own.%I with (security_barrier) as select %s from %s
                        where coalesce(runset_id in (select bench_own.sets()), false)', split_part(relation, '.', 2), columns, relation);
    end loop;
end $$;

-- What measuring cost on the hosts of own runs; commands are those of other users.
create or replace view bench_own.calibrations with (security_barrier) as
select host, ''::text as command, listeners, exporters, repetitions, slowdown, low, high, cpu_share, memory_bytes, calibrated_at
from bench.calibrations where host in (select host from bench_own.runs);

-- Return the label of a run, for a row of these views.
create or replace function bench_own.run_label(w bench_own.workloads, r bench_own.runs) returns text language sql stable as $$
    select bench.run_label(row(w.*)::bench.workloads, row(r.*)::bench.runs)
$$;

-- Return whether a run has simulated GPUs, for a row of these views.
create or replace function bench_own.on_simulated_gpus(r bench_own.runs) returns boolean language sql stable as $$
    select bench_internal.on_simulated_gpus(row(r.*)::bench.runs)
$$;

-- Return the title of a run, for a row of these views.
create or replace function bench_own.run_title(w bench_own.workloads, r bench_own.runs) returns text language sql stable as $$
    select bench_internal.run_title(row(w.*)::bench.workloads, row(r.*)::bench.runs)
$$;

-- The views of schema `bench`, defined again over the relations of this one.
do $$
declare
    relation text;
    definition text;
begin
    foreach relation in array array['run_samples', 'run_summary', 'run_flags', 'run_quality', 'run_contention', 'devices', 'run_list', 'run_throughput', 'tensor_stats'] loop
        perform set_config('search_path', 'bench, bench_internal, bench_dashboard, public', true);
        definition := pg_get_viewdef(relation::regclass);
        perform set_config('search_path', 'bench_own, bench, bench_internal, bench_dashboard, public', true);
        execute format('create or replace view bench_own.%I with (security_barrier) as %s', relation, definition);
    end loop;
    perform set_config('search_path', 'bench, bench_internal, bench_dashboard, public', true);
end $$;

-- Return a chart of own runs at full speed, with the owner's rights. Its body cannot resolve to objects of the user: pg_catalog
-- comes first on the path, temporary objects last.
create or replace function bench_own.run_chart(
    runs text[], quantities text[], start timestamptz, stop timestamptz, step_ms double precision,
    aligned boolean, max_series integer, scopes text[] default null, per_device boolean default false,
    align text default 'time', parts jsonb default null
) returns table ("time" timestamptz, run text, series text, quantity text, scope text, value double precision,
                 low double precision, high double precision)
language sql stable security definer set search_path = pg_catalog, bench, bench_internal, pg_temp as $$
    select * from bench.run_chart(
        array(select r.run_id from bench.runs r where r.run_id in (select bench_own.mine())
              and (r.run_id = any(run_chart.runs) or r.mlflow_run_id = any(run_chart.runs))),
        quantities, start, stop, step_ms, aligned, max_series, scopes, per_device, align, parts)
$$;

-- Return a chart of workloads, likewise. A workload is included only if all its runs are the user's: its line is the mean of
-- all runs.
create or replace function bench_own.workload_chart(
    workloads integer[], quantities text[], start timestamptz, stop timestamptz, step_ms double precision,
    aligned boolean, max_series integer, scopes text[] default null, align text default 'time', parts jsonb default null
) returns table ("time" timestamptz, workload text, quantity text, scope text, value double precision,
                 low double precision, high double precision, runs integer)
language sql stable security definer set search_path = pg_catalog, bench, bench_internal, pg_temp as $$
    select * from bench.workload_chart(
        array(select workload_id from bench.runs where workload_id = any(workloads)
              group by workload_id having bool_and(run_id in (select bench_own.mine()))),
        quantities, start, stop, step_ms, aligned, max_series, scopes, align, parts)
$$;

revoke execute on function bench_own.mine, bench_own.sets, bench_own.my_places, bench_own.run_chart, bench_own.workload_chart
    from public;
do $$
begin
    grant usage on schema bench_own to bench_reader_own;
    grant select on all tables in schema bench_own to bench_reader_own;
    revoke all on all tables in schema bench, bench_internal, bench_dashboard from bench_reader_own;
    -- Relations without data of users.
    grant select on bench.metrics, bench.gpu_peaks, bench_internal.retention, bench_internal.migrations, bench_internal.functions_digest to bench_reader_own;
    grant execute on function bench_own.mine, bench_own.sets, bench_own.my_places, bench_own.run_chart,
                              bench_own.workload_chart to bench_reader_own;
exception when insufficient_privilege or undefined_object then
    raise notice 'roles were left as they are: %', sqlerrm;
end $$;
