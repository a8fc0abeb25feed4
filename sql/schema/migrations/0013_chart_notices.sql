-- They take scopes since, and two of a name would be one too many.
drop function if exists chart_lines(text[], text[], integer);
drop function if exists chart_notice(text[], text[], integer, timestamptz, timestamptz);
