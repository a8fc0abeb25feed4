-- Roles, where the migrating user may make them; elsewhere an administrator does, with sql/roles.sql. Each step stands for
-- itself: who owns the schema may grant, and need not be one who may make roles.

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
    grant usage on schema bench to bench_owner, bench_writer, bench_reader, bench_reader_own;
    grant all on all tables in schema bench to bench_owner;
    grant select, insert, update, delete on all tables in schema bench to bench_writer;
    grant usage on all sequences in schema bench to bench_owner, bench_writer;
    grant select on all tables in schema bench to bench_reader;
exception when insufficient_privilege or undefined_object or internal_error then
    raise notice 'rights were left as they are: %', sqlerrm;
end $$;

-- What may write gives that up where it executes rules.
do $$
begin
    grant bench_reader to bench_writer, bench_owner;
exception when insufficient_privilege or undefined_object or internal_error then
    raise notice 'roles were left as they are: %', sqlerrm;
end $$;

do $$
begin
    alter role bench_owner set search_path = bench, public;
    alter role bench_writer set search_path = bench, public;
    alter role bench_reader set search_path = bench, public;
    alter role bench_reader_own set search_path = bench_own, bench, public;
    execute format('alter database %I set search_path = "$user", bench, public', current_database());
exception when insufficient_privilege or undefined_object or internal_error then
    raise notice 'search paths were left as they are: %', sqlerrm;
end $$;

-- Servers compile costly queries by default (JIT). Ours are short and have many parts: that takes seconds, and saves none.
-- For every connection to this database, Grafana's too, from its next one on; what charts execute has it off in any case.
do $$
begin
    execute format('alter database %I set jit = off', current_database());
exception when insufficient_privilege or internal_error then
    raise notice 'jit was left as it is: %', sqlerrm;
end $$;

-- Cancels what `bench_reader` has asked for longer than this, and says how many that were: who writes SQL may lift the role's
-- own time limit. Its owner is a superuser or a member of that role, as sql/roles.sql makes `bench_owner`; else it does nothing.
-- As in every function with its owner's rights, what a caller may have made is found last: `pg_temp` comes first where it is
-- not named.
create or replace function cancel_long_reads(p_limit interval) returns bigint
language plpgsql security definer set search_path = pg_catalog, bench, pg_temp as $$
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
