-- Each lost run is ended in a transaction of its own: `end_lost_run` in sql/functions/40_run_ends.sql.
drop function if exists bench.end_lost_runs(interval);
