-- A stretch of time as traces count it.
create or replace function microseconds(interval) returns bigint language sql immutable as $$
    select (extract(epoch from $1) * 1000000)::bigint
$$;
