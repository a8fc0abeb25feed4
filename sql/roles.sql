-- The roles of hypergauge. An administrator creates them in an empty database, before the schema, and may run the file again:
--
--   psql -d bench -f sql/roles.sql
--
-- The file sets no passwords; use `\password bench_writer` in psql. TimescaleDB runs its jobs as the owner, so the owner may
-- log in.
\set ON_ERROR_STOP on
set client_min_messages = warning;
begin;

select format('create role %I', name)
from unnest(array['bench_owner', 'bench_writer', 'bench_reader', 'bench_reader_own', 'mlflow']) name
where not exists (select from pg_roles where rolname = name) \gexec

alter role bench_owner login;
alter role bench_writer login;
alter role bench_reader login connection limit 20;
alter role mlflow login;

-- Viewers of Grafana can send any SQL. Logins in the reading roles get the limits that they have not.
create temporary table readers on commit drop as
select oid as role, rolname as name, rolcanlogin and rolconnlimit < 0 as unlimited from pg_roles
where not rolsuper and (pg_has_role(oid, 'bench_reader', 'member') or pg_has_role(oid, 'bench_reader_own', 'member'))
  and not pg_has_role(oid, 'bench_writer', 'member') and not pg_has_role(oid, 'bench_owner', 'member');
select format('alter role %I set %I = %L', r.name, s.name, s.value)
from readers r cross join (values ('default_transaction_read_only', 'on'), ('statement_timeout', '30s')) s (name, value)
where not exists (select from pg_db_role_setting, unnest(setconfig) own
                  where setrole = role and setdatabase = 0 and own ^@ (s.name || '=')) \gexec
select format('alter role %I connection limit 20', name) from readers where unlimited \gexec

select format('alter role %I in database %I set search_path = %sbench, bench_internal, bench_dashboard, public', role, current_database(), own)
from (values ('bench_owner', ''), ('bench_writer', ''), ('bench_reader', ''), ('bench_reader_own', 'bench_own, ')) as paths(role, own) \gexec

-- Servers compile costly queries by default (JIT). Our queries are short with many parts: compilation takes seconds and saves
-- none.
select format('alter database %I set jit = off', current_database()) \gexec

revoke create on schema public from public;
select format('revoke all on database %I from public', current_database()) \gexec
select format('grant connect on database %I to bench_owner, bench_writer, bench_reader, bench_reader_own, mlflow',
              current_database()) \gexec
select format('grant create on database %I to bench_owner', current_database()) \gexec

-- What has an effect without a right to write: locks that any session may wait for, and large objects. Where the schema's owner
-- is a superuser, it also takes TimescaleDB's jobs from all others.
select format('revoke execute on function %s from public; grant execute on function %1$s to bench_owner, bench_writer', oid::regprocedure)
from pg_proc
where pronamespace = 'pg_catalog'::regnamespace and pg_has_role(proowner, 'usage')
  and (proname ~ '^pg_(try_)?advisory_' or proname in ('lo_creat', 'lo_create', 'lo_from_bytea')) \gexec

-- A reader may lift the time limit of its own role, so the owner ends reads that take too long. It sees sessions of other logins
-- by the second role, and ends them by the third.
grant bench_reader, pg_read_all_stats, pg_signal_backend to bench_owner;
-- The writer drops its own rights before it runs rules, since rules are files of users.
grant bench_reader to bench_writer;

-- MLflow owns its tables. The owner of the database backs them up and restores them with the rest.
grant mlflow to bench_owner;
create schema if not exists mlflow authorization mlflow;

commit;
