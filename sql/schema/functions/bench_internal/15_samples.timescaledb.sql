-- Samples with the bounds of their block. Here every sample is a block of its own, and time alone narrows a search.

create or replace view bench_internal.bounded_samples as
select time, series_id, runset_id, value, dt, time as first, time as last from samples;
comment on table bench.samples is 'Samples as stored, in the units of their sources.';

-- Return the query of the rows of an aggregate between two times, given as texts of expressions. `p_condition` selects series and
-- run sets.
create or replace function bench_internal.bucket_query(p_level text, p_condition text, p_low text, p_high text)
returns text language sql immutable as $$
    select format('select series_id, bucket, n, seconds, area, min, max from samples_%s where %s and bucket >= %s and bucket < %s',
                  p_level, p_condition, p_low, p_high)
$$;

-- Return the table into which samples are written.
create or replace function bench_internal.sample_table() returns text language sql immutable as $$ select 'bench.samples' $$;
