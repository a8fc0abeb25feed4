-- Roles, where the migrating user may create them; elsewhere an administrator runs sql/roles.sql. Each step is independent: the
-- owner of the schema may grant, but need not have the right to create roles.

do $$
declare
    wanted text;
begin
    foreach wanted in array array['bench_owner', 'bench_writer', 'bench_reader', 'bench_reader_own'] loop
        if not exists (select from pg_roles where rolname = wanted) then
            execute format('create role %I nologin', wanted);
        end if;
    end loop;
exception when insufficient_privilege or duplicate_object or unique_violation or internal_error then
    raise notice 'roles were left as they are: %', sqlerrm;
end $$;

do $$
begin
    grant usage on schema bench, bench_internal, bench_dashboard to bench_owner, bench_writer, bench_reader, bench_reader_own;
    grant all on all tables in schema bench, bench_internal, bench_dashboard to bench_owner;
    grant select, insert, update, delete on all tables in schema bench, bench_internal, bench_dashboard to bench_writer;
    grant usage on all sequences in schema bench, bench_internal, bench_dashboard to bench_owner, bench_writer;
    grant select on all tables in schema bench, bench_internal, bench_dashboard to bench_reader;
exception when insufficient_privilege or undefined_object or internal_error then
    raise notice 'rights were left as they are: %', sqlerrm;
end $$;

-- The writer drops its own rights before it executes rules.
do $$
begin
    grant bench_reader to bench_writer, bench_owner;
exception when insufficient_privilege or undefined_object or internal_error then
    raise notice 'roles were left as they are: %', sqlerrm;
end $$;

do $$
begin
    alter role bench_owner set search_path = bench, bench_internal, bench_dashboard, public;
    alter role bench_writer set search_path = bench, bench_internal, bench_dashboard, public;
    alter role bench_reader set search_path = bench, bench_internal, bench_dashboard, public;
    alter role bench_reader_own set search_path = bench_own, bench, bench_internal, bench_dashboard, public;
    execute format('alter database %I set search_path = "$user", bench, bench_internal, bench_dashboard, public', current_database());
exception when insufficient_privilege or undefined_object or internal_error then
    raise notice 'search paths were left as they are: %', sqlerrm;
end $$;

-- Servers compile costly queries by default (JIT). Our queries are short with many parts: compilation takes seconds and saves
-- none. The setting applies to new connections to this database, Grafana's too; the functions of charts switch JIT off in any
-- case.
do $$
begin
    execute format('alter database %I set jit = off', current_database());
exception when insufficient_privilege or internal_error then
    raise notice 'jit was left as it is: %', sqlerrm;
end $$;

-- Cancel queries of `bench_reader` that have run longer than this, and return their number: a reader may lift its own time
-- limit. The owner must be a superuser or a member of that role, as `bench_owner` is by sql/roles.sql; else the function does
-- nothing. As in every `security definer` function, objects of the caller come last: `pg_temp` comes first where the path does
-- not name it.
create or replace function cancel_long_reads(p_limit interval) returns bigint
language plpgsql security definer set search_path = pg_catalog, bench, bench_internal, pg_temp as $$
begin
    return (select count(*) filter (where pg_cancel_backend(pid)) from pg_stat_activity
            where usename = 'bench_reader' and datname = current_database() and state = 'active'
              and query_start < clock_timestamp() - p_limit);
exception when insufficient_privilege then
    return 0;
end $$;
revoke execute on function cancel_long_reads from public;
do $$
begin
    grant execute on function cancel_long_reads, remove_runs to bench_owner, bench_writer;
exception when insufficient_privilege or undefined_object then
    raise notice 'rights were left as they are: %', sqlerrm;
end $$;
