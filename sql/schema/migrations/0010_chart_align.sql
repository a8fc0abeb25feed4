-- They take `align` since, and two of a name would be one too many.
drop function if exists run_chart(text[], text[], timestamptz, timestamptz, float8, boolean, integer, text[], boolean);
drop function if exists run_chart_statement(text[], text[], timestamptz, timestamptz, float8, boolean, integer, text[], boolean);
drop function if exists bench_own.run_chart(text[], text[], timestamptz, timestamptz, float8, boolean, integer, text[], boolean);
