-- Background jobs and sizes of the database, in plain PostgreSQL.

create or replace view bench_dashboard.storage_jobs as
select 'none: the collector packs closed hours, `bench db maintain` does the rest'::text as job, ''::text as relation,
       ''::text as state, ''::text as result, null::timestamptz as last_run, null::double precision as seconds, null::timestamptz as next_run, null::bigint as failures;

-- Relations by size. Rows are estimates since the last `analyze`, null before the first; `compressed` is the share of packed samples.
create or replace view bench_dashboard.storage_sizes as
with tables as (
    select oid, relname::text as relation, nullif(reltuples, -1) as rows, pg_total_relation_size(oid) as bytes
    from pg_class where relnamespace in ('bench'::regnamespace, 'bench_internal'::regnamespace) and relkind = 'r'
), samples as (
    select (select rows from tables where oid = 'bench_internal.unpacked_samples'::regclass) as unpacked,
           -- The size of the first packed rows stands for all.
           (select rows from tables where oid = 'bench_internal.packed_samples'::regclass)
               * coalesce((select avg(n) from (select n from packed_samples limit 1000) x), 0) as packed
)
select 'samples' as relation, (coalesce(s.unpacked, 0) + coalesce(s.packed, 0))::bigint as rows, sum(t.bytes)::bigint as bytes,
       s.packed / nullif(coalesce(s.unpacked, 0) + s.packed, 0) as compressed
from samples s, tables t where t.relation in ('unpacked_samples', 'packed_samples', 'packed_scrapes') group by s.unpacked, s.packed
union all
select relation, rows::bigint, bytes, null from tables where relation not in ('unpacked_samples', 'packed_samples', 'packed_scrapes');
