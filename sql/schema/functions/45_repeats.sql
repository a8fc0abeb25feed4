-- Targets that give the same: node_exporter beside our own exporter, say. Of these one counts, or they would be added up.

-- Whether a series is one of several that say the same figure of one device, which counts once: that of a board, repeated on
-- each of its instances; whatever dcgm-exporter says of a GPU, repeated for each pod, job and virtual GPU on it; and a disk
-- that NVMe has several paths to. Of those that differ the greatest counts: some versions of dcgm-exporter add each pod's
-- part, and Linux before 6.4 counts at the paths alone. Links of a GPU (`gpu_uuid`) are no repetition.
create or replace function counts_once(p_board boolean, p_metric text, p_device text, p_labels jsonb) returns boolean
language sql immutable as $$
    select coalesce(p_board, false) or p_metric ^@ 'DCGM_FI_' and p_labels ?| '{UUID,uuid}'
           or p_metric ^@ 'node_disk_' and p_device ^@ 'nvme'
$$;

-- Whether a source that measured so many seconds covers what the best one did, `p_most` seconds.
create or replace function covers(p_seconds float8, p_most float8) returns boolean language sql immutable as $$
    select p_seconds >= least(0.9 * p_most, p_most - 5)
$$;

-- How many seconds of a run a series has measured. Not in SQL, or each chunk would be planned where nobody asks.
create or replace function measured_seconds(p_run text, p_series integer) returns float8 language plpgsql stable as $$
begin
    return (
        select coalesce(sum(x.dt), 0)
        from series s join run_sets rs using (place_id)
        cross join lateral (
            select dt from samples
            where series_id = p_series and runset_id = rs.runset_id and value is not null
              and time >= rs.started_at - interval '1 min' and time < coalesce(rs.ended_at, 'infinity') + interval '1 min'
            offset 0) x
        where s.series_id = p_series and rs.run_id = p_run);
end $$;

-- The series that do not count for runs, of some quantities or of all where null: another target gives the same metric of
-- the same place, of a GPU's the same device. Of those that cover the run the one counts that was there first. What the
-- catalog does not know is no place's: two servers on a host may each count their own requests, and so does each exporter
-- its own CPU time.
--
-- What was found when a run's summary was written stays. Until then it is asked when a target was last seen; `p_measured`
-- asks the samples.
create or replace function repeats_of(p_runs text[], p_quantities text[], p_measured boolean default false)
returns setof repeats language sql stable as $$
    with told as (
        select s.place_id, s.quantity, s.metric, d.device, t.last_seen, array_agg(s.series_id) as ids, min(s.series_id) as first,
               count(*) over (partition by s.place_id, s.quantity, s.metric, d.device) as targets
        from (select distinct place_id from run_sets where run_id = any(p_runs)) there
        join series s using (place_id) join targets t using (target_id)
        cross join lateral (select case when s.quantity like 'gpu\_%' then s.device end as device) d
        where s.metric_id is not null and s.quantity <> 'listener_cpu_usage' and (p_quantities is null or s.quantity = any(p_quantities))
        group by s.place_id, s.quantity, s.metric, d.device, t.target_id, t.last_seen
    ), heard as (
        select r.run_id, t.*,
               case when p_measured then measured_seconds(r.run_id, t.first)
                    else extract(epoch from least(t.last_seen, r.ended_at, now()) - r.started_at) end::float8 as seconds
        from told t
        join (select distinct run_id, place_id from run_sets where run_id = any(p_runs)) there using (place_id)
        join runs r using (run_id)
        where t.targets > 1 and (p_measured or not exists (select from repeats x where x.run_id = r.run_id))
    ), covering as (
        select *, covers(seconds, max(seconds) over (partition by run_id, place_id, quantity, metric, device)) as covering
        from heard
    ), ranked as (
        select *, row_number() over (partition by run_id, place_id, quantity, metric, device
                                     order by covering desc, first) as rank
        from covering
    )
    select run_id, series_id from repeats where run_id = any(p_runs) and not p_measured
    union all
    select run_id, unnest(ids) from ranked where rank > 1
$$;
