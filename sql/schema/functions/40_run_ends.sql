-- How runs end. The supervisor says when; where it is gone, the last sign of life does.

-- Only who has seen an end knows an exit code: what was seen is never replaced by what was not.
create or replace function end_run(
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
                 count(*) filter (where status not in ('finished', 'pending', 'running')) as bad
          from (select distinct on (position) * from runs where workload_id = the_workload
                order by position, attempt desc) latest) x
    where w.workload_id = the_workload;
end $$;

-- When the process tree of a run was last seen alive; its start where it never was.
create or replace function last_sign_of_life(p_run text) returns timestamptz language sql stable as $$
    select coalesce(
        (select max(x.time) from places p join series s using (place_id)
         cross join lateral (select time from samples where series_id = s.series_id and time >= r.started_at
                             order by time desc limit 1) x
         where p.run_id = r.run_id and s.quantity = 'processes'),
        r.started_at)
    from runs r where r.run_id = p_run
$$;

-- Ends a run whose lease is over and whose processes have been silent for as long as a lease lasts; returns whether it is such
-- a one. To be called when all that was scraped has been written, else silence may only be lag, and in a transaction of its own.
-- What somebody else has in hands is left to them: its supervisor, which is there after all, knows how it ended.
create or replace function end_lost_run(p_run text, p_lease interval) returns boolean language plpgsql as $$
declare
    last_sign timestamptz;
begin
    perform from runs where run_id = p_run and status = 'running' and lease_until < now() for no key update skip locked;
    if not found then
        return false;
    end if;
    last_sign := last_sign_of_life(p_run);
    if last_sign >= now() - p_lease then
        return false;
    end if;
    perform end_run(p_run, 'failed', last_sign, null,
                    'its supervisor vanished; it ends at the last sign of life of its processes');
    return true;
end $$;
