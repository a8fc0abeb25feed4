-- GPUs and MIG instances by display name, with * for simulated ones: from the labels of the newest series on them. GPUs of each
-- vendor count from 0, so those of others than NVIDIA have the vendor's name, by the exporter that measures them.
create or replace view devices as
select p.place_id, p.kind, p.host, p.gpu_uuid, p.gpu_instance_id,
       concat_ws(' · ', coalesce(gpu.vendor || 'GPU ' || gpu.number, left(p.gpu_uuid, 12)),
                 case when p.kind = 'instance' then concat(coalesce(instance.profile, 'instance'), ' #', p.gpu_instance_id) end)
           || case when gpu.simulated then ' *' else '' end as device,
       gpu.model, instance.profile, coalesce(gpu.simulated, false) as simulated, p.origin
from places p
cross join lateral (
    select (array_agg(s.labels ->> 'gpu' order by series_id desc) filter (where s.labels ? 'gpu'))[1] as number,
           (array_agg(coalesce(s.labels ->> 'modelName', s.labels ->> 'name') order by series_id desc)
            filter (where s.labels ? 'modelName' or s.metric like '%gpu\_info'))[1] as model,
           bool_or(s.labels ->> 'simulated' = 'true') as simulated,
           coalesce(max(case when t.listener in ('amd', 'intel', 'jetson', 'apple')
                             then case t.listener when 'amd' then 'AMD' else initcap(t.listener) end || ' ' end), '') as vendor
    from places b join series s using (place_id) left join targets t using (target_id)
    where b.host = p.host and b.gpu_uuid = p.gpu_uuid and b.origin = p.origin) gpu
cross join lateral (
    select (array_agg(s.labels ->> 'GPU_I_PROFILE' order by series_id desc) filter (where s.labels ? 'GPU_I_PROFILE'))[1]
           as profile
    from series s where s.place_id = p.place_id and p.kind = 'instance') instance
where p.kind in ('gpu', 'instance');

-- Return the number in a display name, by which devices are ordered: GPU 2 comes before GPU 10.
create or replace function bench_internal.device_number(p_device text) returns numeric language sql immutable as $$
    select substring(p_device from '[0-9]+')::numeric
$$;
