-- The roles of hypergauge, made by an administrator in a database of its own, before its schema and again at any time:
--
--   psql -d bench -f sql/roles.sql
--
-- No password is set here: `\password bench_writer` does, in psql. TimescaleDB's jobs run as the owner, so it may log in.
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

select format('alter role %I in database %I set search_path = %s', role, current_database(), path)
from (values ('bench_owner', 'bench, public'), ('bench_writer', 'bench, public'), ('bench_reader', 'bench, public'),
             ('bench_reader_own', 'bench_own, bench, public')) as paths(role, path) \gexec

-- Servers compile costly queries by default (JIT). Ours are short and have many parts: that takes seconds, and saves none.
select format('alter database %I set jit = off', current_database()) \gexec

revoke create on schema public from public;
select format('revoke all on database %I from public', current_database()) \gexec
select format('grant connect on database %I to bench_owner, bench_writer, bench_reader, bench_reader_own, mlflow',
              current_database()) \gexec
select format('grant create on database %I to bench_owner', current_database()) \gexec

-- Who writes SQL may lift a time limit of their own role: what they ask for too long is cancelled in the owner's name.
grant bench_reader to bench_owner;
-- Who may write gives that up for the rules that it asks, which are files of users.
grant bench_reader to bench_writer;

-- MLflow's tables are MLflow's; the owner backs them up and restores them with the rest.
grant mlflow to bench_owner;
create schema if not exists mlflow authorization mlflow;

commit;
