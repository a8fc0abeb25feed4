-- Hosts and GPUs: use, users, idle devices, and energy. Imported data are from other sites, and left out.

-- Return the GPUs measured in the last 2 minutes, or the instances of a divided GPU: a row per run on them, or one row without
-- a run. `state` is `busy` with a run, `others` with processes of no run, or `idle`. `since` is the run's start there, or the
-- end of the last run; null where there never was one. Power and temperature are those of the whole GPU. An instance that was
-- removed with its run is left out.
create or replace function bench_dashboard.fleet()
returns table (host text, gpu_uuid text, device text, model text, simulated boolean, state text, run_id text, run text,
               name text, owner text, since timestamptz, utilization double precision, memory_used double precision,
               memory_total double precision, power double precision, power_limit double precision,
               temperature double precision)
language sql stable rows 100 as $$
    with measured as materialized (
        select place_id, max(value) filter (where quantity = 'gpu_utilization') as utilization,
               max(time) filter (where quantity = 'gpu_utilization') as utilized_at, max(time) as seen,
               max(value) filter (where quantity = 'gpu_memory_used') as memory_used,
               max(value) filter (where quantity = 'gpu_memory_total') as memory_total,
               max(value) filter (where quantity = 'gpu_power') as power,
               max(value) filter (where quantity = 'gpu_power_limit') as power_limit,
               max(value) filter (where quantity = 'gpu_temperature') as temperature
        from newest(array(select place_id from places where kind in ('gpu', 'instance') and origin = ''),
                    array['gpu_utilization', 'gpu_memory_used', 'gpu_memory_total', 'gpu_power', 'gpu_power_limit',
                          'gpu_temperature'], now() - interval '2 min')
        group by place_id
    ), running as materialized (
        select p.host, p.gpu_uuid, p.gpu_instance_id, p.started_at, r.run_id, run_label(w, r) as run, r.name, r.owner
        from placements p join runs r using (run_id) join workloads w using (workload_id)
        where p.ended_at is null and p.gpu_uuid is not null and r.status = 'running'
    ), known as materialized (
        select d.*, m.utilization, m.utilized_at, m.seen, m.memory_used, m.memory_total, m.power, m.power_limit, m.temperature,
               -- A later sample has nothing of the last run: exporters average over some seconds.
               l.ended_at as free_since, coalesce(l.ended_at + interval '10 s', '-infinity') as clear_at
        from measured m join devices d using (place_id)
        cross join lateral (select max(p.ended_at) as ended_at from placements p
                            where p.host = d.host and p.gpu_uuid = d.gpu_uuid and p.origin = ''
                              and coalesce(p.gpu_instance_id = d.gpu_instance_id, true)) l
    ), here as materialized (
        -- Of a removed instance no sample follows.
        select * from known k
        where kind = 'gpu' or seen > clear_at or now() < clear_at + interval '10 s'
           or exists (select from running o where o.host = k.host and o.gpu_uuid = k.gpu_uuid
                      and coalesce(o.gpu_instance_id = k.gpu_instance_id, true))
    )
    select h.host, h.gpu_uuid, h.device, coalesce(h.model, ''), h.simulated,
           case when o.run_id is not null then 'busy' when h.utilization > 0.05 and h.utilized_at > h.clear_at then 'others'
                else 'idle' end,
           o.run_id, o.run, o.name, o.owner,
           coalesce(o.started_at, h.free_since), h.utilization, h.memory_used, h.memory_total, b.power, b.power_limit, b.temperature
    from here h
    left join here b on b.kind = 'gpu' and b.host = h.host and b.gpu_uuid = h.gpu_uuid
    left join running o on o.host = h.host and o.gpu_uuid = h.gpu_uuid
                        and (o.gpu_instance_id is null or o.gpu_instance_id = h.gpu_instance_id)
    where o.run_id is not null or h.kind = 'instance'
       or not exists (select from here i where i.kind = 'instance' and i.host = h.host and i.gpu_uuid = h.gpu_uuid)
    order by h.host, device_number(h.device), h.device, o.run
$$;

-- Return the hosts measured in the last 2 minutes. GPUs are whole ones.
create or replace function bench_dashboard.fleet_hosts()
returns table (host text, runs bigint, gpus bigint, gpus_busy bigint, cores_busy double precision, cores double precision,
               load double precision, memory_used double precision, memory_total double precision, seen timestamptz)
language sql stable rows 100 as $$
    with measured as materialized (
        select p.host, sum(n.value) filter (where quantity = 'cpu_usage') as busy,
               sum(n.value) filter (where quantity like 'cpu\_%') as cores,
               max(n.value) filter (where quantity = 'load') as load,
               max(n.value) filter (where quantity = 'memory_total') as memory_total,
               max(n.value) filter (where quantity = 'memory_available') as memory_available, max(n.time) as seen
        from newest(array(select place_id from places where kind = 'host' and origin = ''),
                    array['cpu_usage', 'cpu_idle', 'cpu_iowait', 'load', 'memory_total', 'memory_available'],
                    now() - interval '2 min') n
        join places p using (place_id) group by p.host
    ), gpus as (
        select d.host, count(distinct d.gpu_uuid) as gpus,
               count(distinct d.gpu_uuid) filter (where exists (
                   select from placements p join runs r using (run_id)
                   where p.host = d.host and p.gpu_uuid = d.gpu_uuid and p.ended_at is null and r.status = 'running')) as busy
        from newest(array(select place_id from places where kind = 'gpu' and origin = ''), array['gpu_power', 'gpu_temperature'],
                    now() - interval '2 min') n
        join devices d using (place_id) group by d.host
    )
    select m.host, (select count(*) from runs r where r.host = m.host and r.status = 'running'), coalesce(g.gpus, 0),
           coalesce(g.busy, 0), m.busy, m.cores, m.load, m.memory_total - m.memory_available, m.memory_total, m.seen
    from measured m left join gpus g using (host) order by m.host
$$;

-- Return the devices of runs in a line each, by display name and by id; no row for a run without GPUs.
create or replace function bench_dashboard.device_labels(p_runs text[]) returns table (run_id text, devices text, uuids text)
language sql stable as $$
    with placed as materialized (
        select * from placements where run_id = any(p_runs) and gpu_uuid is not null
    ), named as materialized (
        select * from devices where (host, gpu_uuid) in (select host, gpu_uuid from placed)
    )
    select p.run_id, string_agg(coalesce(d.device, p.mig_uuid, p.gpu_uuid), ', ' order by d.device),
           string_agg(coalesce(p.mig_uuid, p.gpu_uuid), ', ' order by d.device)
    from placed p
    left join named d on d.host = p.host and d.gpu_uuid = p.gpu_uuid and d.origin = p.origin
                     and d.gpu_instance_id is not distinct from p.gpu_instance_id
    group by p.run_id
$$;

-- Return the devices of a run in one line; null for a run without GPUs.
create or replace function bench_dashboard.device_label(p_run text) returns text language sql stable as $$
    select devices from device_labels(array[p_run])
$$;

-- Return the running runs with their own use; GPU power is their share above idle.
create or replace function bench_dashboard.fleet_runs()
returns table (run_id text, run text, name text, owner text, host text, devices text, since timestamptz, simulated boolean,
               cpu_usage double precision, memory_used double precision, gpu_memory_used double precision,
               gpu_power double precision)
language sql stable rows 100 as $$
    with running as materialized (
        select r.*, run_label(w, r) as label, p.place_id
        from runs r join workloads w using (workload_id) left join places p on p.run_id = r.run_id and p.kind = 'process'
        where r.status = 'running'
    ), usage as materialized (
        select place_id, max(value) filter (where quantity = 'cpu_usage') as cpu_usage,
               max(value) filter (where quantity = 'memory_used') as memory_used,
               max(value) filter (where quantity = 'gpu_memory_used') as gpu_memory_used,
               max(value) filter (where quantity = 'gpu_energy_attributed') as gpu_power
        from newest(array(select place_id from running),
                    array['cpu_usage', 'memory_used', 'gpu_memory_used', 'gpu_energy_attributed'],
                    now() - interval '2 min')
        group by place_id
    )
    select g.run_id, g.label, g.name, g.owner, g.host, coalesce(device_label(g.run_id), 'no GPU'), g.started_at, g.simulated,
           f.cpu_usage, f.memory_used, f.gpu_memory_used, f.gpu_power
    from running g left join usage f using (place_id) order by g.started_at, g.label
$$;

-- Return the runs on each device in an interval, those that shared it together, with the color of the first (see
-- `chart_style`); of the first `max_devices` devices by host and number. All hosts where `hosts` is null.
create or replace function bench_dashboard.occupancy(
    start timestamptz, stop timestamptz, max_devices integer default 40, hosts text[] default null
) returns table ("time" timestamptz, ended timestamptz, device text, runs text, color text) language sql stable as $$
    with had as materialized (
        select rs.place_id, rs.runset_id, rs.started_at, rs.ended_at, r.run_id, run_label(w, r) as run
        from run_sets rs join places p using (place_id)
        join placements on placements.run_id = rs.run_id and placements.host = p.host and placements.gpu_uuid = p.gpu_uuid
             and placements.gpu_instance_id is not distinct from p.gpu_instance_id
        join runs r on r.run_id = rs.run_id join workloads w using (workload_id)
        where p.origin = '' and rs.started_at < occupancy.stop and coalesce(rs.ended_at, 'infinity') > occupancy.start
          and (occupancy.hosts is null or p.host = any(occupancy.hosts))
    ), together as (
        select place_id, started_at, ended_at, string_agg(t.title, ' + ' order by t.nth) as runs,
               (array_agg(t.color order by t.nth))[1] as color
        from had join run_titles(array(select run_id from had)) t using (run)
        group by place_id, runset_id, started_at, ended_at
    ), named as (
        select t.*, concat_ws(' ', case when min(d.host) over () <> max(d.host) over () then d.host end, d.device) as device,
               dense_rank() over (order by d.host, device_number(d.device), d.device) as line
        from together t join devices d using (place_id)
    )
    select greatest(started_at, occupancy.start), least(coalesce(ended_at, now()), occupancy.stop), device, runs, color
    from named where line <= occupancy.max_devices order by line, 1
$$;

-- Return the utilization of devices in an interval as `series_chart` does, with one row without a value for each GPU that was not
-- measured, on hosts that were; of at most `max_devices` devices. No row where no device was measured.
create or replace function bench_dashboard.fleet_utilization(
    start timestamptz, stop timestamptz, step_ms double precision, max_devices integer default 40, hosts text[] default null
) returns table ("time" timestamptz, device text, value double precision) language sql stable as $$
    with points as materialized (
        select time, series, value
        from series_chart(array['gpu_utilization'], fleet_utilization.start, fleet_utilization.stop, fleet_utilization.step_ms,
                          'device', fleet_utilization.max_devices, fleet_utilization.hosts)
    ), drawn as (
        -- As in `series_chart`: names have their host where series are of several.
        select min(p.host) as first, max(p.host) as last
        from places p join series s using (place_id)
        where p.run_id is null and p.origin = '' and s.quantity = 'gpu_utilization'
          and (fleet_utilization.hosts is null or p.host = any(fleet_utilization.hosts))
    ), named as (
        select d.*, concat_ws(' ', case when d.host <> n.first or d.host <> n.last then d.host end, d.device) as name
        from devices d cross join drawn n
        where d.origin = '' and (fleet_utilization.hosts is null or d.host = any(fleet_utilization.hosts))
    ), unknown as (
        select name from named g
        where kind = 'gpu'
          and exists (select from targets t where t.host = g.host and greatest(t.last_seen, t.lease_until) > fleet_utilization.start)
          -- A divided GPU has the rows of its instances.
          and not exists (select from named i join points on i.name = series where i.host = g.host and i.gpu_uuid = g.gpu_uuid)
          and name not in (select series from points)
        order by name limit fleet_utilization.max_devices - (select count(distinct series) from points)
    )
    select time, series, value from points
    union all
    -- At a time of the others: Grafana derives the width of all cells from the distances of times.
    select (select min(time) from points), name, null from unknown where exists (select from points)
    order by 1
$$;

-- Return the notice of devices that the charts of an interval leave out; no row where they draw all.
create or replace function bench_dashboard.fleet_notice(
    start timestamptz, stop timestamptz, max_devices integer default 40, hosts text[] default null
) returns table (code text, severity text, runs text[], "values" jsonb) language sql stable as $$
    with measured as (
        select series, row_number() over (order by series) as line
        from series_chart(array['gpu_utilization', 'gpu_power'], fleet_notice.start, fleet_notice.stop,
                          extract(epoch from fleet_notice.stop - fleet_notice.start) * 100, 'device', 100000,
                          fleet_notice.hosts)
        group by series
    ), left_out as (
        select jsonb_build_object('total', max(line), 'drawn', fleet_notice.max_devices,
                                  'devices', array_agg(series order by line) filter (where line > fleet_notice.max_devices))
               as "values"
        from measured having max(line) > fleet_notice.max_devices
    )
    select c.code, c.severity, '{}'::text[], l."values" from left_out l join notice_codes() c on c.code = 'devices_left_out'
$$;

-- Return the energy of an interval in joules by consumer, within a hundredth of the interval at both ends. `kind` is `run`
-- (above idle), `idle` and `other` (processes of no run) for GPUs whose power is attributed, `whole` for GPUs where only the
-- GPU's power is known, and `cpu` (packages and memory). Never add simulated and real energy. As in a run's summary, one source
-- counts over the whole interval, and no other fills its gaps: a counter's next sample has the energy of the gap. The parts of a
-- GPU are of one split, so that they add up: that of DCGM counts where it measured the GPU and all of its runs.
create or replace function bench_dashboard.energy(start timestamptz, stop timestamptz)
returns table (kind text, host text, device text, run_id text, run text, owner text, simulated boolean,
               joules double precision)
language sql stable as $$
    with members as materialized (
        select s.series_id, s.quantity, s.place_id, coalesce(m.scale, 1) as scale,
               counts_once(m.whole_device, s.metric, s.device, s.labels) as once,
               concat_ws(' ', p.host, s.labels ->> 'UUID') as gpu, s.metric ^@ 'bench_dcgm_' as by_dcgm,
               coalesce(s.labels ->> 'simulated' = 'true', false) as simulated,
               min(s.series_id) over (partition by s.place_id, s.quantity, s.metric, s.target_id,
                                                  federated_exporter(s.host, s.labels), s.device) as source
        from series s join places p using (place_id) left join metrics m using (metric_id)
        where s.quantity = any(array['gpu_energy_attributed', 'gpu_energy_idle', 'gpu_energy_other', 'gpu_power',
                                     'cpu_power', 'dram_power'])
          and p.origin = ''
          and (p.run_id is null or p.run_id in (select run_id from runs where started_at < energy.stop
                                                and coalesce(ended_at, 'infinity') > energy.start))
    ), steps as (
        select m.place_id, m.quantity, m.source, m.gpu, m.by_dcgm, bool_or(m.simulated) as simulated,
               max(x.seconds) as seconds,
               case when bool_or(m.once) then max(x.area * m.scale) else sum(x.area * m.scale) end as joules
        from members m
        join series_steps(array(select series_id from members), energy.start, energy.stop,
                          extract(epoch from energy.stop - energy.start) * 10) x using (series_id)
        group by m.place_id, m.quantity, m.source, m.gpu, m.by_dcgm, x.time
    ), found as materialized (
        select place_id, quantity, source, gpu, by_dcgm, bool_or(simulated) as simulated, sum(seconds) as seconds,
               sum(joules) as joules
        from steps group by place_id, quantity, source, gpu, by_dcgm
    ), incomplete as materialized (
        -- The exporter `dcgm` may start later, and a run may choose others.
        select distinct gpu from found f
        where f.quantity in ('gpu_energy_attributed', 'gpu_energy_idle') and not by_dcgm
          and not exists (select from found o where o.by_dcgm and (o.place_id, o.quantity, o.gpu) = (f.place_id, f.quantity, f.gpu)
                                                and (o.quantity = 'gpu_energy_attributed' or covers(o.seconds, f.seconds)))
    ), read as materialized (
        select * from found where not (by_dcgm and gpu in (select gpu from incomplete))
    ), chosen as materialized (
        select read.*
        from (select array_agg(concat_ws(' ', place_id, quantity)) as lines, array_agg(source) as sources,
                     array_agg(seconds) as seconds from read) given
        cross join lateral ranked_sources(given.lines, given.sources, given.seconds) r
        join read on read.source = r.series_id
        where r.rank = 1
    )
    select case c.quantity when 'gpu_energy_attributed' then 'run' when 'gpu_energy_idle' then 'idle'
                           when 'gpu_energy_other' then 'other' when 'gpu_power' then 'whole' else 'cpu' end,
           p.host, d.device, p.run_id, nullif(run_label(w, r), ''), r.owner, c.simulated, sum(c.joules)
    from chosen c join places p using (place_id)
    left join devices d using (place_id)
    left join runs r on r.run_id = p.run_id left join workloads w using (workload_id)
    where c.quantity <> 'gpu_power'
       or not exists (select from chosen o where o.place_id = c.place_id and o.quantity = 'gpu_energy_idle')
    group by 1, p.host, d.device, p.run_id, run_label(w, r), r.owner, c.simulated
    order by 8 desc nulls last
$$;

-- Return the energy of an interval by owner, and by kind where no user owns it.
create or replace function bench_dashboard.energy_shares(start timestamptz, stop timestamptz, hosts text[] default null)
returns table (who text, simulated boolean, joules double precision) language sql stable as $$
    select case kind when 'run' then owner when 'idle' then 'GPUs with nothing to do' when 'other' then 'others'' processes'
                     when 'whole' then 'GPUs, undivided' else 'CPUs and memory' end,
           simulated, sum(joules)
    from energy(energy_shares.start, energy_shares.stop)
    where energy_shares.hosts is null or host = any(energy_shares.hosts) group by 1, 2 order by 3 desc nulls last
$$;
