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
    select *, row_number() over (partition by tensor_set order by l2 is null, step desc) as newest
    from rule_tensors(%(run)s, %(start)s, %(stop)s, '{losses,gradients}', 1000000)
), recent as materialized (
    select tensor_set, collection, names, step, l2, newest from watched where newest <= 20 and l2 is not null order by step desc
), earlier as materialized (
    select o.run_id from mine m
    join workloads w on w.experiment_id = m.experiment_id
    join runs o on o.workload_id = w.workload_id and o.run_id <> m.run_id and o.params <> m.params and o.started_at < m.started_at
), others as materialized (
    -- One look at the newest step in common with each earlier run: all must be equal.
    select o.run_id from earlier o
    where exists (
        select from recent t join tensor_sets s on s.run_id = o.run_id and s.collection = t.collection
        cross join lateral (
            select v.l2 = x.l2 as same
            from recent x join tensor_steps v on v.run_id = s.run_id and v.tensor_set = s.tensor_set and v.step = x.step
            where x.tensor_set = t.tensor_set and v.l2 is not null
            order by x.step desc limit 1) newest
        where t.newest = 1 and newest.same and s.names = t.names)
), compared as (
    select o.run_id, x.step, min(x.time) as time, bool_and(x.same) as same
    from others o
    cross join lateral (
        select x.step, x.time, v.l2 = x.l2 and v.mean is not distinct from x.mean as same
        from tensor_sets s
        join watched x on x.collection = s.collection and x.names = s.names
        join tensor_steps v on v.run_id = s.run_id and v.tensor_set = s.tensor_set and v.step = x.step
        where s.run_id = o.run_id offset 0) x
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
