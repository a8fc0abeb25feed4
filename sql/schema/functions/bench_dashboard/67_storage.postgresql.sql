-- Background jobs and sizes of the database, in plain PostgreSQL.

create or replace view bench_dashboard.storage_jobs as
select 'none: aggregates are computed on read, `bench db maintain` does the rest'::text as job, ''::text as relation,
       ''::text as state, ''::text as result, null::timestamptz as last_run, null::double precision as seconds, null::timestamptz as next_run, null::bigint as failures;

-- Relations by size. Rows are those of the last `analyze`; null before the first.
create or replace view bench_dashboard.storage_sizes as
select c.relname::text as relation, nullif(c.reltuples, -1)::bigint as rows, pg_total_relation_size(c.oid) as bytes,
       null::double precision as compressed
from pg_class c where c.relnamespace in ('bench'::regnamespace, 'bench_internal'::regnamespace) and c.relkind = 'r';
