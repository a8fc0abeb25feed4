-- Throughput of runs by their tracked steps, and the share of the peak of their devices that their models used.

-- Peaks of GPU models in FLOPS, dense.
create or replace view gpu_peaks as select * from gpu_peak_list();

-- Return the devices of a run with the peak of each in FLOPS, FP16 and BF16; null for an unknown model. That of a MIG instance is
-- its part of the GPU's compute slices. A run without a GPU has a row without a model: its host.
create or replace function bench_internal.device_peaks(p_run text) returns table (model text, peak float8) language sql stable as $$
    select d.model, k.fp16 * case when p.gpu_instance_id is null then 1
                                  else coalesce(substring(d.profile from '([0-9]+)c\.'), substring(d.profile from '([0-9]+)g'))::float8
                                       / k.slices end
    from (select distinct host, origin, gpu_uuid, gpu_instance_id from placements where run_id = p_run) p
    left join devices d on (d.host, d.gpu_uuid, d.origin) = (p.host, p.gpu_uuid, p.origin)
                       and d.gpu_instance_id is not distinct from p.gpu_instance_id
    left join lateral (select g.* from bench_internal.gpu_peak_list() with ordinality as g (model, pattern, fp16, tf32, fp32, fp8, slices, source, nth)
                       where d.model ~* g.pattern order by nth limit 1) k on true
$$;

-- Return the peak of a run's devices in FLOPS; `p_unknown` is that of a device of an unknown model. Null where one is unknown.
create or replace function bench_internal.peak_flops(p_run text, p_unknown float8 default null) returns float8 language sql stable as $$
    select case when bool_and(coalesce(peak, p_unknown, 0) > 0) then sum(coalesce(peak, p_unknown)) end from bench_internal.device_peaks(p_run)
$$;

create or replace view run_throughput as
select r.run_id, t.steps, t.seconds, t.steps_per_second, t.samples, t.tokens, t.samples_per_second, t.tokens_per_second,
       t.flops_per_second, t.data_wait_share,
       case when t.flops_per_second is not null then t.flops_per_second / peak_flops(r.run_id) end as mfu
from runs r cross join lateral throughput(r.run_id) t;
