-- Gives the roles of sql/roles.sql the passwords that docker-compose.yml lays into /run/secrets.
set log_statement = 'none';
set log_min_error_statement = 'panic';
\set owner `cat /run/secrets/bench_owner`
\set writer `cat /run/secrets/bench_writer`
\set reader `cat /run/secrets/bench_reader`
\set mlflow `cat /run/secrets/mlflow`
alter role bench_owner password :'owner';
alter role bench_writer password :'writer';
alter role bench_reader password :'reader';
alter role mlflow password :'mlflow';
