-- How runs end. The supervisor says when; where it is gone, the last sign of life does.

create or replace function end_run(
    p_run text, p_status text, p_ended timestamptz, p_exit integer, p_reason text
) returns void language plpgsql as $$
declare
    the_workload integer;
begin
    update runs set status = p_status, ended_at = greatest(p_ended, started_at), exit_code = p_exit, reason = p_reason,
                    lease_until = null
    where run_id = p_run returning workload_id into the_workload;
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

-- Ends the runs whose lease is over and whose processes have been silent for as long as a lease lasts. To be called
-- when all that was scraped has been written, else silence may only be lag.
create or replace function end_lost_runs(p_lease interval) returns setof text language plpgsql as $$
declare
    lost record;
begin
    for lost in
        select run_id, last_sign_of_life(run_id) as last_sign from runs
        where status = 'running' and lease_until < now()
    loop
        if lost.last_sign < now() - p_lease then
            perform end_run(lost.run_id, 'failed', lost.last_sign, null,
                            'its supervisor vanished; it ends at the last sign of life of its processes');
            return next lost.run_id;
        end if;
    end loop;
end $$;
