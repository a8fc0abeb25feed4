-- How many seconds old is what this server shows, where it follows another one: 0 where all that has come can be seen, null
-- where it follows none. While it has lost its primary nobody knows what is missing, so its newest transaction counts.
create or replace function replica_behind() returns double precision language sql volatile as $$
    select case when pg_is_in_recovery() then
        case when exists (select from pg_stat_wal_receiver) and pg_last_wal_receive_lsn() <= pg_last_wal_replay_lsn() then 0
             else greatest(extract(epoch from clock_timestamp()
                  - coalesce(pg_last_xact_replay_timestamp(), pg_postmaster_start_time()))::float8, 0) end end
$$;

-- What to know where that is more than a few seconds; null else.
create or replace function replica_notice() returns text language sql volatile as $$
    select format('The replica is %s behind: what goes on here may have ended since.', make_interval(secs => round(seconds)))
    from (select replica_behind()::numeric as seconds) behind where seconds > 5
$$;
