-- Order of results: the one rule for ties.

-- Return a number with four significant digits. Numbers that agree in these are equal in every ranking.
create or replace function bench_internal.four_digits(p_value float8) returns float8 language sql immutable as $$
    select case when p_value in ('infinity', '-infinity', 'NaN') then p_value else to_char(p_value, '9.999EEEE')::float8 end
$$;

-- Return the places of values in the order of the list, 1 for the best; equal values share one (see `four_digits`). Null for an
-- unknown value. `p_direction` is 1 where more is better, -1 where less is.
create or replace function bench_internal.places(p_values float8[], p_direction integer) returns bigint[] language sql immutable as $$
    select coalesce(array_agg(case when value is not null then place end order by nth), '{}')
    from (select nth, value, rank() over (order by p_direction * four_digits(value) desc nulls last) as place
          from unnest(p_values) with ordinality as x (value, nth)) ranked
$$;

-- Return the change of a value against another one, relative to its size: 0.1 for 10 % more, -0.5 for -3 after -2. Null where that is
-- 0 or unknown.
create or replace function bench_internal.relative_change(p_value float8, p_base float8) returns float8 language sql immutable as $$
    select (p_value - p_base) / nullif(abs(p_base), 0)
$$;
