-- Background jobs and sizes of the database, in TimescaleDB.

create or replace view bench_dashboard.storage_jobs as
select case j.proc_name when 'refresh' then 'refresh of aggregates' when 'retain' then 'retention'
                        when 'policy_compression' then 'compression' else j.proc_name end::text as job,
       coalesce(c.view_name, j.hypertable_name, '')::text as relation,
       case when not j.scheduled then 'off' when s.job_status = 'Running' then 'running' else '' end as state,
       coalesce(lower(s.last_run_status), 'not run yet') as result,
       nullif(s.last_run_started_at, '-infinity') as last_run,
       extract(epoch from s.last_run_duration)::double precision as seconds,
       nullif(s.next_start, '-infinity') as next_run, coalesce(s.total_failures, 0)::bigint as failures
from timescaledb_information.jobs j
left join timescaledb_information.job_stats s using (job_id)
left join timescaledb_information.continuous_aggregates c
       on (c.view_schema, c.view_name) = (j.hypertable_schema, j.hypertable_name)
       or (c.materialization_hypertable_schema, c.materialization_hypertable_name) = (j.hypertable_schema, j.hypertable_name)
where j.proc_schema = 'bench_internal' or 'bench' in (j.hypertable_schema, c.view_schema);

-- Relations by size. Rows are estimates; `compressed` is the share of compressed chunks.
create or replace view bench_dashboard.storage_sizes as
with partitioned as (
    select 'samples' as relation, 'bench.samples'::regclass as id
    union all
    select view_name, format('%I.%I', materialization_hypertable_schema, materialization_hypertable_name)::regclass
    from timescaledb_information.continuous_aggregates where view_schema = 'bench'
)
select p.relation::text, public.approximate_row_count(p.id) as rows, public.hypertable_size(p.id) as bytes,
       s.number_compressed_chunks / nullif(s.total_chunks, 0)::double precision as compressed
from partitioned p left join lateral public.hypertable_columnstore_stats(p.id) s on true
union all
select c.relname, nullif(c.reltuples, -1)::bigint, pg_total_relation_size(c.oid), null
from pg_class c
where c.relnamespace in ('bench'::regnamespace, 'bench_internal'::regnamespace) and c.relkind = 'r' and c.oid not in (select id from partitioned);
