-- Reductions of tensors, a row for each tensor and step. A condition on the name is evaluated once per set, and each array is read
-- once per step: `d` holds it in memory, since an element of a stored array costs as much as the whole array. There, nulls are NaN:
-- an element after a null costs as many steps as its position.
create or replace view tensor_stats as
select v.run_id, v.step, v.time, v.pid, s.collection, t.name, coalesce(d.sizes[t.nth], t.size) as size,
       nullif(d.min[t.nth], 'NaN') as min, nullif(d.max[t.nth], 'NaN') as max, nullif(d.mean[t.nth], 'NaN') as mean,
       nullif(d.std[t.nth], 'NaN') as std, nullif(d.l1[t.nth], 'NaN') as l1, nullif(d.l2[t.nth], 'NaN') as l2,
       nullif(d.zeros[t.nth], 'NaN') as zeros, nullif(d.nonfinite[t.nth], 'NaN') as nonfinite,
       nullif(d.saturated[t.nth], 'NaN') as saturated, nullif(d.update_ratio[t.nth], 'NaN') as update_ratio,
       nullif(d.p05[t.nth], 'NaN') as p05, nullif(d.p25[t.nth], 'NaN') as p25, nullif(d.p50[t.nth], 'NaN') as p50,
       nullif(d.p75[t.nth], 'NaN') as p75, nullif(d.p95[t.nth], 'NaN') as p95
from tensor_sets s
cross join lateral unnest(s.names, s.sizes) with ordinality as t (name, size, nth)
join tensor_steps v using (run_id, tensor_set)
cross join lateral (
    select v.sizes || '{}' as sizes,
           array_replace(v.min, null, 'NaN') as min, array_replace(v.max, null, 'NaN') as max,
           array_replace(v.mean, null, 'NaN') as mean, array_replace(v.std, null, 'NaN') as std,
           array_replace(v.l1, null, 'NaN') as l1, array_replace(v.l2, null, 'NaN') as l2,
           array_replace(v.zeros, null, 'NaN') as zeros, array_replace(v.nonfinite, null, 'NaN') as nonfinite,
           array_replace(v.saturated, null, 'NaN') as saturated, array_replace(v.update_ratio, null, 'NaN') as update_ratio,
           array_replace(v.p05, null, 'NaN') as p05, array_replace(v.p25, null, 'NaN') as p25,
           array_replace(v.p50, null, 'NaN') as p50, array_replace(v.p75, null, 'NaN') as p75,
           array_replace(v.p95, null, 'NaN') as p95
    offset 0  -- as a part of its own: else each element would be read from the stored array
) d;
