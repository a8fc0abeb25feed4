-- Reductions of tensors, a row for each tensor and step. A condition on the name is evaluated once per set, and each array is read
-- once per step: `d` holds it in memory, since an element of a stored array costs as much as the whole array.
create or replace view tensor_stats as
select v.run_id, v.step, v.time, v.pid, s.collection, t.name, coalesce(d.sizes[t.nth], t.size) as size, d.min[t.nth] as min,
       d.max[t.nth] as max, d.mean[t.nth] as mean, d.std[t.nth] as std, d.l1[t.nth] as l1, d.l2[t.nth] as l2,
       d.zeros[t.nth] as zeros, d.nonfinite[t.nth] as nonfinite, d.saturated[t.nth] as saturated,
       d.update_ratio[t.nth] as update_ratio, d.p05[t.nth] as p05, d.p25[t.nth] as p25, d.p50[t.nth] as p50,
       d.p75[t.nth] as p75, d.p95[t.nth] as p95
from tensor_sets s
cross join lateral unnest(s.names, s.sizes) with ordinality as t (name, size, nth)
join tensor_steps v using (run_id, tensor_set)
cross join lateral (
    select v.sizes || '{}' as sizes, v.min || '{}' as min, v.max || '{}' as max, v.mean || '{}' as mean, v.std || '{}' as std,
           v.l1 || '{}' as l1, v.l2 || '{}' as l2, v.zeros || '{}' as zeros, v.nonfinite || '{}' as nonfinite,
           v.saturated || '{}' as saturated, v.update_ratio || '{}' as update_ratio, v.p05 || '{}' as p05,
           v.p25 || '{}' as p25, v.p50 || '{}' as p50, v.p75 || '{}' as p75, v.p95 || '{}' as p95
    offset 0  -- as a part of its own: else each element would be read from the stored array
) d;
