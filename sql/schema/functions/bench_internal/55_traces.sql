-- Return an interval in microseconds, as traces count.
create or replace function bench_internal.microseconds(interval) returns bigint language sql immutable as $$
    select (extract(epoch from $1) * 1000000)::bigint
$$;
