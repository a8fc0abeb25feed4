-- How often sources are read, and the intervals and buckets that what they say falls into.

-- The part of a sample's seconds that was seen, where its source is read every `p_interval` seconds.
create or replace function seen_of(p_dt float8, p_interval float8) returns float8 language sql immutable as $$
    select case when p_dt > 3 * p_interval then p_interval else p_dt end
$$;

-- Where a moment falls in intervals of so many seconds, as in a chart with this step.
create or replace function interval_bin(p_time timestamptz, p_interval float8) returns timestamptz language sql immutable as $$
    select date_bin(make_interval(secs => p_interval), p_time, timestamptz '2000-01-03 00:00:00+00')
$$;

-- How many seconds apart a series usually is read, by its first samples in some run sets (in all where null). Not in SQL, or
-- each chunk would be planned where nobody asks.
create or replace function usual_interval(p_series integer, p_sets integer[], p_from timestamptz, p_to timestamptz)
returns float8 language plpgsql stable as $$
begin
    return (
        select least(percentile_disc(0.5) within group (order by dt), 60)
        from (select dt::float8 from samples
              where series_id = p_series and (p_sets is null or runset_id = any(p_sets))
                and time >= p_from and time < p_to and dt > 0
              order by time limit 25) first);
end $$;

-- When the first bucket begins that does so at a time or later; the time itself where there are no buckets.
create or replace function next_bucket(bucket interval, at timestamptz) returns timestamptz language sql immutable as $$
    select coalesce(date_bin(bucket, at + bucket - interval '1 microsecond', timestamptz '2000-01-03 00:00:00+00'), at)
$$;
