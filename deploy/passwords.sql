-- Gives the roles of sql/roles.sql the passwords that docker-compose.yml lays into /run/secrets, and a replica one to follow by.
set log_statement = 'none';
set log_min_error_statement = 'panic';
\set owner `cat /run/secrets/bench_owner`
\set writer `cat /run/secrets/bench_writer`
\set reader `cat /run/secrets/bench_reader`
\set replica `cat /run/secrets/bench_replica`
\set mlflow `cat /run/secrets/mlflow`
alter role bench_owner password :'owner';
alter role bench_writer password :'writer';
alter role bench_reader password :'reader';
alter role mlflow password :'mlflow';
select 'create role bench_replica login replication'
where not exists (select from pg_roles where rolname = 'bench_replica') \gexec
alter role bench_replica password :'replica';
