-- Levels of aggregates: 10s, 1m and 10m, as in the names of relations and columns.

-- Return the width of the buckets of a level.
create or replace function bench_internal.level_width(p_level text) returns interval language sql immutable as $$
    select case p_level when '10s' then interval '10 s' when '1m' then interval '1 min' when '10m' then interval '10 min' end
$$;

-- Return the level for a step in seconds, with its width in seconds: the widest that fits; null for samples.
create or replace function bench_internal.level_of(p_step float8, out level text, out seconds float8) language sql immutable as $$
    select x.level, x.seconds
    from unnest(array['10m', '1m', '10s']) level cross join lateral (select level, extract(epoch from level_width(level))::float8 as seconds) x
    where p_step >= x.seconds order by x.seconds desc limit 1
$$;
