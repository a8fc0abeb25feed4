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

-- Viewers of Grafana can send any SQL.
alter role bench_reader set default_transaction_read_only = on;
alter role bench_reader set statement_timeout = '30s';

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

-- A reader may lift the time limit of its own role, so the owner cancels reads that run too long.
grant bench_reader to bench_owner;
-- The writer drops its own rights before it runs rules, since rules are files of users.
grant bench_reader to bench_writer;

-- MLflow owns its tables. The owner of the database backs them up and restores them with the rest.
grant mlflow to bench_owner;
create schema if not exists mlflow authorization mlflow;

commit;
