-- name = "CpuSaturated"
-- means = "The run uses all of the cores that it may use: more of them, or less work for them, would make it faster."
-- advice = "Give it more cores (affinity, quota of its control group, fewer neighbours), do its preprocessing once or on the GPU, or make it cheaper."
-- severity = "info"
-- lookback = "5 min"
-- [parameters.threshold]
-- default = 0.9
-- unit = "ratio"
-- help = "of the cores that it may use, from which on they are used up"
-- [parameters.patience]
-- default = "5 s"
-- help = "how long they have to be"
-- [parameters.point]
-- default = "10 s"
-- help = "means are taken over this"

with points as (
    select started_at, used, available, used / nullif(available, 0) as share
    from rule_cpu(%(run)s, %(start)s, %(stop)s, %(point)s)
), judged as (
    select array_agg(started_at) as times, array_agg(share >= %(threshold)s) as saturated from points
)
select s.started_at, s.ended_at,
       jsonb_build_object('share', avg(p.share), 'cores', avg(p.used), 'available', max(p.available)) as evidence
from judged
cross join lateral rule_stretches(times, saturated, %(patience)s, %(stop)s) s
join points p on p.started_at >= s.started_at and p.started_at < s.until
group by s.started_at, s.ended_at
