-- Targets, and series, created when a collector first scrapes them.

-- Return whether another collector scrapes this host's exporter by address. A local stack scrapes its own exporter without an
-- instance, and leaves the host to that collector, or each value would be stored twice. An instance that is a path belongs to
-- one home directory, and duplicates nothing.
create or replace function bench_internal.scraped_elsewhere(p_host text, p_listener text, p_instance text, p_collector text)
returns boolean language sql stable as $$
    select p_instance = '' and exists (
        select from targets where host = p_host and listener = p_listener and instance <> '' and instance not like '/%'
        and collector <> p_collector and lease_until > now())
$$;

-- Return the catalog's row for a metric with these labels: the match with the most labels. Rows from a capsule apply to its
-- series alone, which name them.
create or replace function bench_internal.catalog_row(p_metric text, p_labels jsonb) returns setof metrics language sql stable as $$
    select m.* from metrics m where m.metric = p_metric and p_labels @> m.match and m.origin = ''
    order by (select count(*) from jsonb_object_keys(m.match)) desc limit 1
$$;

-- Return the names of values that comparisons and gates compute, which no other metric may take: columns, titles of columns, short
-- names, and the headings before the values. A cost has the name of its currency, see `own_names`.
create or replace function bench_internal.computed_names() returns text[] language sql immutable as $$
    select array['duration_seconds', 'makespan_seconds', 'cpu_utilization', 'cpu_seconds', 'peak_memory_bytes', 'disk_read_bytes',
        'disk_write_bytes', 'gpu_peak_memory_bytes', 'gpu_power_watts', 'gpu_energy_joules', 'cpu_energy_joules', 'dram_energy_joules',
        'system_energy_joules', 'energy_joules', 'energy_per_epoch_joules', 'energy_per_step_joules', 'energy_per_sample_joules',
        'samples_per_joule', 'tokens_per_joule', 'steps_per_second', 'samples_per_second', 'tokens_per_second', 'flops_per_second',
        'data_wait_share', 'mfu', 'co2_grams', 'time_to_target_seconds', 'energy_to_target_joules',
        'duration', 'makespan', 'CPU', 'CPU time', 'peak memory', 'read', 'written', 'GPU', 'SM active', 'GPU memory', 'GPU power',
        'GPU energy', 'CPU energy', 'memory energy', 'system energy', 'energy', 'energy per epoch', 'energy per step',
        'energy per sample', 'samples/J', 'tokens/J', 'steps/s', 'samples/s', 'tokens/s', 'model FLOPS', 'data wait', 'MFU', 'CO₂',
        'step_time', 'epoch_time', 'throughput', 'run', 'row', 'workload', 'name', 'status', 'simulated', 'attempts']
$$;

-- Return names of metrics without those of quantities of the catalog, of computed values, and of `p_taken`: such a name gets the
-- prefix, and so does one that has it already, so that no two metrics share a name.
create or replace function bench_internal.own_names(p_names text[], p_prefix text, p_taken text[] default '{}')
returns table (given text, name text) language sql stable as $$
    select given, case when bare ~ '^cost_[a-z]{3}$'
                            or bare in (select m.quantity from metrics m where m.origin = '' union all select unnest(computed_names())
                                        union all select unnest(p_taken))
                       then p_prefix || given else given end
    from (select distinct unnest(p_names)) n (given) cross join lateral regexp_replace(given, '^(' || p_prefix || ')+', '') bare
$$;

-- Return the quantity of a metric outside the catalog: its own name, in its own unit. One that has the name of a quantity of the
-- catalog, or of a computed value, is `exported_NAME`, as a label in Prometheus that the target has too.
create or replace function bench_internal.own_quantity(p_metric text) returns text language sql stable as $$
    select name from own_names(array[p_metric], 'exported_')
$$;

-- Return a GPU's UUID as the driver writes it: nvidia_gpu_exporter omits the prefix `GPU-`.
create or replace function bench_internal.gpu_uuid(p_uuid text) returns text language sql immutable as $$
    select case when p_uuid ~* '^(GPU-)?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
                then 'GPU-' || lower(regexp_replace(p_uuid, '^GPU-', '', 'i')) else p_uuid end
$$;

-- Return the GPU and the MIG instance of a series; null for none. The labels of dcgm-exporter are `UUID` (`gpu_uuid` for links,
-- `uuid` with its old names) and `GPU_I_ID`; those of nvidia_gpu_exporter are `uuid` and `gpu_instance_id`. nvitop-exporter has
-- `uuid`, which for an instance is the instance's own: the placements of runs name its GPU.
create or replace function bench_internal.gpu_of(p_metric text, p_labels jsonb, out uuid text, out instance integer)
language plpgsql stable as $$
declare
    given text := coalesce(p_labels ->> 'UUID', p_labels ->> 'gpu_uuid',
                          -- File systems and machines have a uuid as well.
                          case when p_metric like 'nvidia\_smi\_%' or p_metric like 'DCGM\_FI\_%'
                                    or p_labels ->> 'uuid' ~ '^(GPU|MIG)-' then p_labels ->> 'uuid' end);
    number text := coalesce(p_labels ->> 'GPU_I_ID', p_labels ->> 'gpu_instance_id');
begin
    if given like 'MIG-%' then
        select gpu_uuid(p.gpu_uuid), p.gpu_instance_id into uuid, instance
        from placements p where p.mig_uuid = given order by p.started_at desc limit 1;
    elsif given <> '' then
        uuid := gpu_uuid(given);
        instance := case when number ~ '^\d{1,9}$' then number::integer end;
    end if;
end $$;

-- Return whether a disk or network interface of node_exporter is virtual: its traffic is counted again on another device. The
-- name decides: partitions, volumes, arrays; bonds, bridges, VLANs, tunnels, representors of a card's functions, and the host's
-- ends of containers' interfaces. A container's own `eth0` is not virtual. Devices of other metrics yield null.
create or replace function bench_internal.stands_on_others(p_metric text, p_device text) returns boolean language sql immutable as $$
    select case when p_metric ^@ 'node_disk_' then p_device ~
        '^(dm-|md[_\d]|(loop|z?ram|zd|fd|bcache|drbd|nbd)\d|([hsv]|xv)d[a-z]+\d|dasd[a-z]+\d|(nvme\d+n|mmcblk|rbd)\d+p\d)'
    when p_metric ^@ 'node_network_' then p_device ~ (
        '^(veth|azv|cali|cilium|lxc|lxd|weave|flannel|cni|kube|nodelocaldns|antrea|docker|podman|br-|virbr|vmbr|fw(br|ln|pr)|ovs-'
        '|vnet|macv|ipvl|tun|tap|utun|wg|tailscale|zt|vxlan|genev|gre|erspan|sit|ip6?_?(tnl|gre|vti)|dummy|ifb|bond|team|awdl|llw|gif|stf)'
        '|^(br|bridge|lo|vlan|ap)\d+$|^(eni|gke)[0-9a-f]{11}$|\.[0-9a-f]+$|pf\d+(vf|sf)\d+$|^pf\d+hpf$')
    end
$$;

-- Return the device of a series that is no GPU's: a disk, an interface, a core, a port, an export or a mount.
create or replace function bench_internal.device_of(p_metric text, p_labels jsonb) returns text language sql immutable as $$
    select case when p_metric ^@ 'node_infiniband_' then concat_ws('/', p_labels ->> 'device', p_labels ->> 'port')
                when p_metric ^@ 'node_mountstats_nfs_' then p_labels ->> 'export'
                when p_metric ^@ 'lustre_' then p_labels ->> 'target'
                -- A path to an NVMe disk (nvme0c1n1) counts as the disk (nvme0n1).
                else coalesce(regexp_replace(p_labels ->> 'device', '^(nvme\d+)c\d+(n\d+)$', '\1\2'), p_labels ->> 'cpu') end
$$;

-- Return the quantity of an event of perf: `perf_minor_faults` for `minor-faults`. Events of different kinds cannot be added, so
-- each has its own.
create or replace function bench_internal.event_quantity(p_event text) returns text language sql immutable as $$
    select 'perf_' || trim('_' from lower(regexp_replace(p_event, '[^A-Za-z0-9]+', '_', 'g')))
$$;

-- Create or find series of one target. `p_series` is an array of {"metric", "labels", "counts"}; rows return in its order (`ord`
-- from 1), with the resolution of a gauge in the catalog. The labels decide the resource: a run's id, a GPU and its instance, else
-- the host. The host is that of the target's labels, else `hostname` of the line, since a target in Kubernetes is a pod. Between
-- them stands the host that the series' own labels give ("host", which "by_label" overrides a line's as well); an empty one is that
-- of no host, and no run has its values. `hostname` of a line does not count with a run's id: a run has values of its id from the
-- targets of its own hosts alone, which the configuration names. A value of a whole GPU belongs to the GPU, on whichever instance
-- it is repeated. A collector's own metrics belong to a process of no run, so that no run has them as its host's.
create or replace function bench_internal.open_series(p_target integer, p_series jsonb)
returns table (ord bigint, series_id integer, place_id integer, resolution double precision) language plpgsql as $$
#variable_conflict use_column
declare
    source targets;
begin
    select * into source from targets where target_id = p_target;
    insert into metrics (metric, match, quantity, unit, kind, combine, help)
    select distinct m.metric, jsonb_build_object('event', e.event), event_quantity(e.event), m.unit, m.kind, m.combine,
           format('Count of %s, of a run under perf.', e.event)
    from jsonb_array_elements(p_series) as w(item) join metrics m on m.metric = w.item ->> 'metric' and m.match = '{}' and m.origin = ''
    cross join lateral (select w.item -> 'labels' ->> 'event' as event) e
    where m.metric = 'bench_process_perf_events_total' and e.event is not null
    on conflict (metric, match) where origin = '' do nothing;
    return query
    with wanted as (
        select w.ord, w.item ->> 'metric' as metric, w.item -> 'labels' as labels, (w.item ->> 'counts')::boolean as counts,
               w.item ->> 'host' as own_host, coalesce((w.item ->> 'by_label')::boolean, false) as by_label
        from jsonb_array_elements(p_series) with ordinality as w(item, ord)
    ), own as materialized (  -- once for each metric, not for each of its series
        select metric, own_quantity(metric) as quantity from (select distinct metric from wanted) m
    ), placed as (
        select w.*, c.metric_id, c.resolution, coalesce(c.quantity, own.quantity) as quantity,
               -- The hostname of nvitop-exporter is an address by default; placements of runs have names.
               coalesce(case when w.by_label then w.own_host end, (select name from unnest(array[w.labels ->> 'hostname', w.labels ->> 'Hostname']) as name
                         where not source.says_host and i.run_id is null and name !~ '^[0-9.]*$|:' limit 1),
                        nullif(w.own_host, ''), source.host) as host,
               i.run_id, g.uuid, case when not coalesce(c.whole_device, false) then g.instance end as gi
        from wanted w
        join own using (metric)
        cross join lateral (select substring(w.labels ->> 'run_id' from '^[0-9a-f]{32}$') as run_id) i
        -- A label overrides the guess from the name.
        cross join lateral (select case when coalesce(w.labels ->> 'virtual', stands_on_others(w.metric, w.labels ->> 'device')::text)
                                             = 'true' then '{"virtual": "true"}' else '{}' end::jsonb as beneath) v
        left join lateral catalog_row(w.metric, w.labels || v.beneath) c on true
        left join lateral gpu_of(w.metric, w.labels) g on true
    ), numbered as (
        select p.*, k.kind, dense_rank() over (order by k.kind, p.host, p.run_id, k.gpu, k.instance) as nth, k.gpu, k.instance
        from placed p
        cross join lateral (
            select case when p.run_id is not null then 'process'
                        when p.uuid is not null then case when p.gi is not null then 'instance' else 'gpu' end
                        when p.metric like 'bench\_collector\_%' or p.own_host = '' then 'process'
                        else 'host' end as kind,
                   case when p.run_id is null then p.uuid end as gpu, case when p.run_id is null then p.gi end as instance) k
    ), resources as (
        select nth, place(kind, host, gpu, instance, run_id) as place_id
        from (select distinct nth, kind, host, gpu, instance, run_id from numbered) resource
    ), opened as (
        insert into series (target_id, metric, metric_id, quantity, counts, place_id, host, device, labels)
        select p_target, p.metric, p.metric_id, p.quantity, p.counts, r.place_id, p.host,
               case when p.uuid is not null then concat_ws('/', p.uuid, p.gi) else device_of(p.metric, p.labels) end,
               p.labels
        from numbered p join resources r using (nth)
        on conflict (target_id, metric, md5(labels::text)) do update set metric_id = excluded.metric_id,
            quantity = excluded.quantity, counts = excluded.counts,
            -- The series moves when its target names another host: later samples belong there.
             place_id = case when series.host = excluded.host then series.place_id else excluded.place_id end,
             host = excluded.host
        returning series_id, place_id, metric, labels
    )
    select p.ord, o.series_id, o.place_id, case when not p.counts then p.resolution end
    from placed p join opened o using (metric, labels);
end $$;
