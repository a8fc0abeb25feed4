-- Functions with other parameters than in the releases before: charts and summaries of parts of runs.

drop function if exists bench_internal.summary_between(text, text[], timestamptz, timestamptz);
drop function if exists bench_internal.chart_statement(
    text[], text[], timestamptz, timestamptz, double precision, boolean, integer, text[], boolean, text, boolean, boolean);
drop function if exists bench_internal.run_chart_statement(
    text[], text[], timestamptz, timestamptz, double precision, boolean, integer, text[], boolean, text);
drop function if exists bench_internal.workload_chart_statement(
    integer[], text[], timestamptz, timestamptz, double precision, boolean, integer, text[], text);
drop function if exists bench.run_chart(
    text[], text[], timestamptz, timestamptz, double precision, boolean, integer, text[], boolean, text);
drop function if exists bench.workload_chart(
    integer[], text[], timestamptz, timestamptz, double precision, boolean, integer, text[], text);
drop function if exists bench_own.run_chart(
    text[], text[], timestamptz, timestamptz, double precision, boolean, integer, text[], boolean, text);
drop function if exists bench_own.workload_chart(
    integer[], text[], timestamptz, timestamptz, double precision, boolean, integer, text[], text);
