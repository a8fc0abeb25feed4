-- name = "SimilarAcrossRuns"
-- means = "The run computes exactly what an earlier run of its experiment did, though their parameters differ: one has no effect."
-- advice = "Check that the script uses the parameter. Where it cannot change the result, such as a number of workers, ignore this."
-- severity = "info"
-- needs = ["losses", "gradients"]
-- [parameters.steps]
-- default = 10
-- unit = "watched steps"
-- help = "steps that both runs watched, all of which must be equal"

-- Repetitions have the same parameters, so they do not count. Losses and gradients are compared to the last bit.
with mine as (
    select r.run_id, r.params, w.experiment_id, r.started_at from runs r join workloads w using (workload_id)
    where r.run_id = %(run)s and exists (select from tensor_sets where run_id = r.run_id)
), watched as (
    select x.*, row_number() over (partition by collection order by step desc) as newest
    from rule_tensors(%(run)s, %(start)s, %(stop)s, '{losses,gradients}', 1000000) x
), others as (
    -- One look at the newest step of each earlier run.
    select distinct o.run_id, o.started_at from mine m
    join workloads w on w.experiment_id = m.experiment_id
    join runs o on o.workload_id = w.workload_id and o.run_id <> m.run_id and o.params <> m.params and o.started_at < m.started_at
    join tensor_sets s on s.run_id = o.run_id
    join watched x on x.newest <= 20 and x.collection = s.collection and x.names = s.names
    join tensor_steps v on v.run_id = s.run_id and v.tensor_set = s.tensor_set and v.step = x.step and v.l2 = x.l2
), compared as (
    select o.run_id, min(o.started_at) as started_at, x.step, min(x.time) as time, bool_and(v.l2 = x.l2 and v.mean is not distinct from x.mean) as same
    from others o
    join tensor_sets s on s.run_id = o.run_id
    join watched x on x.collection = s.collection and x.names = s.names
    join tensor_steps v on v.run_id = s.run_id and v.tensor_set = s.tensor_set and v.step = x.step
    group by o.run_id, x.step
), alike as (
    select run_id, min(time) as begins, max(time) as ends, count(*) as steps, min(step) as step
    from compared group by run_id having bool_and(same) and count(*) >= %(steps)s
)
select a.begins as started_at, a.ends as ended_at,
       jsonb_build_object('run', l.run, 'steps', a.steps, 'parameters', (
           select to_jsonb(array_agg(key order by key)) from (
               select key from jsonb_object_keys(m.params || o.params) key
               where m.params -> key is distinct from o.params -> key order by key limit 5) k)) as evidence
from alike a join mine m on true join runs o on o.run_id = a.run_id
cross join lateral (select run_label(w, o) as run from workloads w where w.workload_id = o.workload_id) l
order by o.started_at limit 1
