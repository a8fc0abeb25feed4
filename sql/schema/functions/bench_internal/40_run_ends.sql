-- Run exits. The supervisor reports the end; for a lost supervisor, the last sample of the run's processes counts.

-- Return whether a status is that of a run that ended early: it failed, was stopped, or reached a time limit.
create or replace function bench_internal.ended_early(p_status text) returns boolean language sql immutable as $$
    select p_status not in ('finished', 'pending', 'running')
$$;

-- Store the end of a run, and of its workload with its last run. Only a witness of the exit knows the exit code, so an end
-- without a code never replaces one with a code.
create or replace function bench_internal.end_run(
    p_run text, p_status text, p_ended timestamptz, p_exit integer, p_reason text
) returns void language plpgsql as $$
declare
    the_workload integer;
begin
    update runs set status = p_status, ended_at = greatest(p_ended, started_at), exit_code = p_exit, reason = p_reason,
                    lease_until = null
    where run_id = p_run and (p_exit is not null or exit_code is null or status in ('pending', 'running'))
    returning workload_id into the_workload;
    if not found then
        return;
    end if;
    update placements set ended_at = greatest(p_ended, started_at) where run_id = p_run;
    update workloads w set
        ended_at = case when x.open = 0 then x.last_end end,
        status = case when x.open > 0 then 'running' when x.bad > 0 then 'failed' else 'finished' end
    from (select count(*) filter (where status in ('pending', 'running')) as open, max(ended_at) as last_end,
                 count(*) filter (where ended_early(status)) as bad
          from (select distinct on (position) * from runs where workload_id = the_workload
                order by position, attempt desc) latest) x
    where w.workload_id = the_workload;
end $$;

-- Return the time at which a run's process tree was last seen; the run's start where it never was.
create or replace function bench_internal.last_sign_of_life(p_run text) returns timestamptz language sql stable as $$
    select coalesce(
        (select max(x.time) from places p join series s using (place_id)
         cross join lateral (select time from bounded_samples
                             where series_id = s.series_id and time >= r.started_at and last >= r.started_at
                             order by time desc limit 1) x
         where p.run_id = r.run_id and s.quantity = 'processes'),
        r.started_at)
    from runs r where r.run_id = p_run
$$;

-- End a run whose lease has expired and whose processes have been silent for the length of a lease; return whether it was
-- ended. Call it in a transaction of its own, after all scraped samples are written: before, silence may be lag. It skips a run
-- that is locked by its supervisor, which knows the true end.
create or replace function bench_internal.end_lost_run(p_run text, p_lease interval) returns boolean language plpgsql as $$
declare
    last_sign timestamptz;
begin
    perform from runs where run_id = p_run and status = 'running' and lease_until < now() for no key update skip locked;
    if not found then
        return false;
    end if;
    -- Of a run whose row chose no exporter of processes, the supervisor's last renewal counts.
    last_sign := greatest(last_sign_of_life(p_run), (select lease_until - p_lease from runs
                                                     where run_id = p_run and not exporters ? 'process'));
    if last_sign >= now() - p_lease then
        return false;
    end if;
    perform end_run(p_run, 'failed', last_sign, null,
                    'its supervisor vanished; it ends at the last sign of life of its processes');
    return true;
end $$;
