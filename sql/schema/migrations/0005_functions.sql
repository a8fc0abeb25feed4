-- Functions and procedures whose columns or parameters change.

drop function if exists bench_dashboard.run_works(text[]);
drop function if exists bench_dashboard.run_results(text[], text, text);
drop function if exists bench_dashboard.run_verdict(text[], text);
drop function if exists bench_dashboard.workload_results(integer[], text, text);
drop function if exists bench_dashboard.workload_verdict(integer[], text);
drop function if exists bench_internal.workload_works(integer[]);
drop function if exists bench_internal.best_of(text[], double precision[], text[], integer, text[], boolean);
drop procedure if exists bench_internal.pack(timestamptz, integer);
