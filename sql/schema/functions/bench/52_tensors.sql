-- Reductions of tensors, a row for each tensor and step.
create or replace view tensor_stats as
select v.run_id, v.step, v.time, v.pid, s.collection, t.name, t.size, t.min, t.max, t.mean, t.std, t.l1, t.l2, t.zeros,
       t.nonfinite, t.saturated, t.update_ratio, t.p05, t.p25, t.p50, t.p75, t.p95
from tensor_sets s
join tensor_steps v using (run_id, tensor_set)
cross join lateral unnest(s.names, coalesce(v.sizes, s.sizes), v.min, v.max, v.mean, v.std, v.l1, v.l2, v.zeros, v.nonfinite,
                          v.saturated, v.update_ratio, v.p05, v.p25, v.p50, v.p75, v.p95)
    as t (name, size, min, max, mean, std, l1, l2, zeros, nonfinite, saturated, update_ratio, p05, p25, p50, p75, p95);
