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
    revoke insert, update, delete on migrations, functions_digest from bench_writer;
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

-- Logins that only read: `bench_reader`, `bench_reader_own`, and their members, except writers and superusers.
create or replace view bench_internal.readers as
select oid as role, rolname as name, rolcanlogin and rolconnlimit < 0 as unlimited from pg_roles
where not rolsuper
  and (pg_has_role(oid, to_regrole('bench_reader'), 'member') or pg_has_role(oid, to_regrole('bench_reader_own'), 'member'))
  and not coalesce(pg_has_role(oid, to_regrole('bench_writer'), 'member'), false)
  and not coalesce(pg_has_role(oid, to_regrole('bench_owner'), 'member'), false);

-- Limits of readers that have none of their own. A reader may lift its time limit, so `cancel_long_reads` follows.
do $$
declare
    reader record;
    setting record;
begin
    for reader in select * from bench_internal.readers loop
        begin
            for setting in
                select * from (values ('statement_timeout', '30s'), ('default_transaction_read_only', 'on')) x (name, value)
                where not exists (select from pg_db_role_setting, unnest(setconfig) c
                                  where setrole = reader.role and setdatabase = 0 and c ^@ (x.name || '='))
            loop
                execute format('alter role %I set %I = %L', reader.name, setting.name, setting.value);
            end loop;
            if reader.unlimited then
                execute format('alter role %I connection limit 20', reader.name);
            end if;
        exception when insufficient_privilege or undefined_object or internal_error then
            raise notice 'limits of % were left as they are: %', reader.name, sqlerrm;
        end;
    end loop;
end $$;

-- What has an effect without a right to write: locks that any session may wait for, large objects, and jobs. A server gives these
-- to everybody; only their owner, a superuser, can take them back. A function whose parameters change between versions is none
-- of them: pg_upgrade copies the rights, and fails.
do $$
declare
    routine regprocedure;
begin
    for routine in
        select p.oid from pg_proc p
        where (pronamespace = 'pg_catalog'::regnamespace
               and (proname ~ '^pg_(try_)?advisory_' or proname in ('lo_creat', 'lo_create', 'lo_from_bytea'))
               or proname = 'add_job' and exists (select from pg_depend join pg_extension e on e.oid = refobjid
                                                  where objid = p.oid and deptype = 'e' and extname = 'timescaledb'))
          and has_function_privilege('public', p.oid, 'execute') and pg_has_role(proowner, 'usage')
    loop
        execute format('revoke execute on function %s from public', routine);
        execute format('grant execute on function %s to bench_owner, bench_writer', routine);
    end loop;
    execute format('revoke temporary on database %I from public', current_database());
exception when insufficient_privilege or undefined_object or internal_error then
    raise notice 'rights were left as they are: %', sqlerrm;
end $$;

-- End what readers have left for longer than this, and return the number: a query is canceled, and a session ends that is idle
-- in a transaction or with a lock. The owner must be a superuser, or a member of `pg_read_all_stats` and `pg_signal_backend`, as
-- `bench_owner` is by sql/roles.sql; else sessions of other roles than its own stay. As in every `security definer` function, objects of the caller come last:
-- `pg_temp` comes first where the path does not name it.
create or replace function cancel_long_reads(p_limit interval) returns bigint
language plpgsql security definer set search_path = pg_catalog, bench, bench_internal, pg_temp as $$
declare
    session record;
    ended bigint := 0;
begin
    for session in
        select pid, state = 'active' as is_active from pg_stat_activity a join bench_internal.readers r on r.role = a.usesysid
        where datname = current_database() and clock_timestamp() - p_limit > case state when 'active' then query_start else state_change end
          and (state in ('active', 'idle in transaction', 'idle in transaction (aborted)')
               or exists (select from pg_locks l where l.pid = a.pid and locktype = 'advisory'))
    loop
        begin
            ended := ended
                + (case when session.is_active then pg_cancel_backend(session.pid) else pg_terminate_backend(session.pid) end)::integer;
        exception when insufficient_privilege then
            null;
        end;
    end loop;
    return ended;
end $$;
revoke execute on function cancel_long_reads from public;

-- Waits of sessions in this database for a lock, longer than this, with who holds it.
create or replace function bench_internal.lock_waits(p_longer interval)
returns table (pid integer, "user" text, program text, since timestamptz, holder_pid integer, holder text, holder_program text)
language sql volatile as $$
    select a.pid, a.usename::text, a.application_name, l.waitstart, h.pid, h.usename::text, h.application_name
    from pg_locks l join pg_stat_activity a using (pid)
    left join lateral unnest(pg_blocking_pids(l.pid)) blocking (pid) on true
    left join pg_stat_activity h on h.pid = blocking.pid
    where not l.granted and a.datname = current_database() and l.waitstart < clock_timestamp() - p_longer
    order by l.waitstart, a.pid, h.pid
$$;
do $$
begin
    grant execute on function cancel_long_reads, remove_runs to bench_owner, bench_writer;
exception when insufficient_privilege or undefined_object then
    raise notice 'rights were left as they are: %', sqlerrm;
end $$;
