-- Return the age in seconds of the data that a replica shows; null on a server that is none. The age is 0 once the replica has
-- replayed all that it received. Otherwise, also without a connection to the primary, it is the age of the newest transaction.
create or replace function replica_behind() returns double precision language sql volatile as $$
    select case when pg_is_in_recovery() then
        case when exists (select from pg_stat_wal_receiver) and pg_last_wal_receive_lsn() <= pg_last_wal_replay_lsn() then 0
             else greatest(extract(epoch from clock_timestamp()
                  - coalesce(pg_last_xact_replay_timestamp(), pg_postmaster_start_time()))::float8, 0) end end
$$;

-- Return the notice of a replica that lags by more than 5 seconds.
create or replace function bench_internal.replica_notice(out code text, out quantity text, out runs text[], out "values" jsonb)
returns setof record language sql volatile as $$
    select 'replica_behind', null, '{}'::text[], jsonb_build_object('seconds', round(seconds))
    from (select replica_behind()::numeric as seconds) behind where seconds > 5
$$;
