-- Series open when the collector first meets them.

-- The catalog's row for a metric with these labels: the one that matches with most labels. Rows that came with a capsule are
-- for its series, which name them.
create or replace function catalog_row(p_metric text, p_labels jsonb) returns metrics language sql stable as $$
    select m from metrics m where m.metric = p_metric and p_labels @> m.match and m.origin = ''
    order by (select count(*) from jsonb_object_keys(m.match)) desc limit 1
$$;

-- A GPU's UUID as the driver writes it: nvidia_gpu_exporter leaves out `GPU-`.
create or replace function gpu_uuid(p_uuid text) returns text language sql immutable as $$
    select case when p_uuid ~* '^(GPU-)?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
                then 'GPU-' || lower(regexp_replace(p_uuid, '^GPU-', '', 'i')) else p_uuid end
$$;

-- Which GPU a series is about, and which of its instances; null where it is about none. dcgm-exporter says `UUID`
-- (`gpu_uuid` for links, `uuid` with its old names) and `GPU_I_ID`; nvidia_gpu_exporter `uuid` and `gpu_instance_id`;
-- nvitop-exporter `uuid`, which is an instance's own where it speaks of one: a run's placement knows whose that is.
create or replace function gpu_of(p_metric text, p_labels jsonb, out uuid text, out instance integer)
language plpgsql stable as $$
declare
    said text := coalesce(p_labels ->> 'UUID', p_labels ->> 'gpu_uuid',
                          -- Many things have a uuid: file systems, machines.
                          case when p_metric like 'nvidia\_smi\_%' or p_metric like 'DCGM\_FI\_%'
                                    or p_labels ->> 'uuid' ~ '^(GPU|MIG)-' then p_labels ->> 'uuid' end);
    number text := coalesce(p_labels ->> 'GPU_I_ID', p_labels ->> 'gpu_instance_id');
begin
    if said like 'MIG-%' then
        select gpu_uuid(p.gpu_uuid), p.gpu_instance_id into uuid, instance
        from placements p where p.mig_uuid = said order by p.started_at desc limit 1;
    elsif said <> '' then
        uuid := gpu_uuid(said);
        instance := case when number ~ '^\d{1,9}$' then number::integer end;
    end if;
end $$;

-- Whether a disk or a network interface of node_exporter's has nothing beneath it but others that count themselves, by its
-- name: partitions, volumes, arrays; bonds, bridges, VLANs, tunnels, and the host's ends of containers' interfaces. A container's
-- own `eth0` is all that it has. Other metrics' devices are none of these.
create or replace function stands_on_others(p_metric text, p_device text) returns boolean language sql immutable as $$
    select case when p_metric ^@ 'node_disk_' then p_device ~
        '^(dm-|md[_\d]|(loop|z?ram|zd|fd|bcache|drbd|nbd)\d|([hsv]|xv)d[a-z]+\d|dasd[a-z]+\d|(nvme\d+n|mmcblk|rbd)\d+p\d)'
    when p_metric ^@ 'node_network_' then p_device ~ (
        '^(veth|azv|cali|cilium|lxc|lxd|weave|flannel|cni|kube|nodelocaldns|antrea|docker|podman|br-|virbr|vmbr|fw(br|ln|pr)|ovs-'
        '|vnet|macv|ipvl|tun|tap|utun|wg|tailscale|zt|vxlan|genev|gre|erspan|sit|ip6?_?(tnl|gre|vti)|dummy|ifb|bond|team|awdl|llw|gif|stf)'
        '|^(br|bridge|lo|vlan|ap)\d+$|^(eni|gke)[0-9a-f]{11}$|\.[0-9a-f]+$')
    end
$$;

-- Opens series of one target, or finds them. `p_series` is an array of {"metric", "labels", "counts"}; answers in its order
-- (`ord` from 1). Where a series belongs shows in its labels: a run's id, or a GPU and its instance, else the host.
-- The host is the one that the target's labels say, else the line's `hostname`: in Kubernetes that is a pod's.
-- A figure of the whole board belongs to the GPU whichever instance it is repeated on. A collector's own figures are a
-- process's that is no run's, so that no run has them among its host's.
create or replace function open_series(p_target integer, p_series jsonb)
returns table (ord bigint, series_id integer, place_id integer) language plpgsql as $$
#variable_conflict use_column
declare
    source targets;
begin
    select * into source from targets where target_id = p_target;
    return query
    with wanted as (
        select w.ord, w.item ->> 'metric' as metric, w.item -> 'labels' as labels, (w.item ->> 'counts')::boolean as counts
        from jsonb_array_elements(p_series) with ordinality as w(item, ord)
    ), placed as (
        select w.*, c.metric_id, coalesce(c.quantity, w.metric) as quantity,
               -- nvitop-exporter's is by default an address, which no run is placed on.
               coalesce((select name from unnest(array[w.labels ->> 'hostname', w.labels ->> 'Hostname']) as name
                         where not source.says_host and name !~ '^[0-9.]*$|:' limit 1), source.host) as host,
               w.labels ->> 'run_id' as run_id, g.uuid, case when not coalesce(c.board, false) then g.instance end as gi
        from wanted w
        -- A label says it where somebody knows better than the name does.
        cross join lateral (select case when coalesce(w.labels ->> 'virtual', stands_on_others(w.metric, w.labels ->> 'device')::text)
                                             = 'true' then '{"virtual": "true"}' else '{}' end::jsonb as beneath) v
        left join lateral catalog_row(w.metric, w.labels || v.beneath) c on true
        left join lateral gpu_of(w.metric, w.labels) g on true
    ), opened as (
        insert into series (target_id, metric, metric_id, quantity, counts, place_id, host, device, labels)
        select p_target, p.metric, p.metric_id, p.quantity, p.counts,
               case when p.run_id ~ '^[0-9a-f]{32}$' then place('process', p.host, null, null, p.run_id)
                    when p.uuid is not null and p.gi is not null then place('instance', p.host, p.uuid, p.gi, null)
                    when p.uuid is not null then place('gpu', p.host, p.uuid, null, null)
                    when p.metric like 'bench\_collector\_%' then place('process', p.host, null, null, null)
                    else place('host', p.host, null, null, null) end,
               p.host,
               case when p.uuid is not null then concat_ws('/', p.uuid, p.gi)
                    -- A path to a disk (nvme0c1n1) is that disk (nvme0n1).
                    else coalesce(regexp_replace(p.labels ->> 'device', '^(nvme\d+)c\d+(n\d+)$', '\1\2'), p.labels ->> 'cpu') end,
               p.labels
        from placed p
        on conflict (target_id, metric, md5(labels::text)) do update set metric_id = excluded.metric_id,
            quantity = excluded.quantity, counts = excluded.counts,
            -- It moves when its target says another host: what comes from then on belongs there.
             place_id = case when series.host = excluded.host then series.place_id else excluded.place_id end,
             host = excluded.host
        returning series_id, place_id, metric, labels
    )
    select w.ord, o.series_id, o.place_id from wanted w join opened o using (metric, labels);
end $$;
