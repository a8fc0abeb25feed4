-- A target's labels may say the host, which then goes before the one that its lines name: in Kubernetes that is a pod's.
alter table targets add column says_host boolean not null default false;

-- Disks and network interfaces that stand on others were added to these: from now on they are quantities of their own, see
-- the catalog and `stands_on_others`. What is known of former ones is their names.
insert into metrics (metric, match, quantity, unit, scale, kind, combine, preference, board, help)
select metric, '{"virtual": "true"}', 'virtual_' || quantity, unit, 1, 'counter', 'max', 1, false, ''
from (values ('node_disk_read_bytes_total', 'disk_read', 'bytes/s'), ('node_disk_written_bytes_total', 'disk_write', 'bytes/s'),
             ('node_disk_io_time_seconds_total', 'disk_utilization', 'ratio'),
             ('node_network_receive_bytes_total', 'network_receive', 'bytes/s'),
             ('node_network_transmit_bytes_total', 'network_transmit', 'bytes/s')) as ours (metric, quantity, unit)
where exists (select from metrics)  -- else the catalog is about to be written
on conflict (metric, match) do nothing;

-- A path to a disk is that disk.
update series set device = regexp_replace(device, '^(nvme\d+)c\d+(n\d+)$', '\1\2')
where metric like 'node\_disk\_%' and device ~ '^nvme\d+c\d+n\d+$';

-- Where they were added up, and where a GPU's figure was added up for each pod or job on it, summaries are made anew, as far
-- as there are samples.
with moved as (
    update series s set metric_id = m.metric_id, quantity = m.quantity
    from metrics m, metrics former
    where m.metric = s.metric and m.match = '{"virtual": "true"}' and former.metric_id = s.metric_id and former.match = '{}'
      and case when m.metric like 'node\_disk\_%' then s.device ~
        '^(dm-|md[_\d]|(loop|z?ram|zd|fd|bcache|drbd|nbd)\d|([hsv]|xv)d[a-z]+\d|dasd[a-z]+\d|(nvme\d+n|mmcblk|rbd)\d+p\d)'
      else s.device ~ (
        '^(veth|azv|cali|cilium|lxc|lxd|weave|flannel|cni|kube|nodelocaldns|antrea|docker|podman|br-|virbr|vmbr|fw(br|ln|pr)|ovs-'
        '|vnet|macv|ipvl|tun|tap|utun|wg|tailscale|zt|vxlan|genev|gre|erspan|sit|ip6?_?(tnl|gre|vti)|dummy|ifb|bond|team|awdl|llw|gif|stf)'
        '|^(br|bridge|lo|vlan|ap)\d+$|^(eni|gke)[0-9a-f]{11}$|\.[0-9a-f]+$') end
    returning s.place_id
)
update runs set summarised = false
where summarised and started_at >= (select edge from retention)
  and run_id in (
      select run_id from run_sets where place_id in (
          select place_id from moved
          union all
          select place_id from series where metric like 'DCGM\_FI\_%' group by place_id, target_id, metric having count(*) > 1));
