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
-- default = "1 s"
-- help = "means are taken over this"

with points as (
    select started_at, max(value) filter (where quantity = 'cpu_usage') as used,
           max(value) filter (where quantity = 'cpu_available') as available
    from rule_points(%(run)s, '{cpu_usage,cpu_available}', %(start)s, %(stop)s, %(point)s, false, '{process}')
    group by started_at
), smooth as (
    -- Of three each, or a moment in which something else had a core would end a stretch.
    select started_at, avg(used) over line >= %(threshold)s * avg(available) over line as saturated
    from points window line as (order by started_at rows between 1 preceding and 1 following)
), judged as (
    select array_agg(started_at) as times, array_agg(saturated) as saturated from smooth
)
select s.started_at, s.ended_at,
       jsonb_build_object('share', avg(p.used) / avg(p.available), 'cores', avg(p.used), 'available', avg(p.available)) as evidence
from judged
cross join lateral rule_stretches(times, saturated, %(patience)s, %(stop)s) s
join points p on p.started_at >= s.started_at and p.started_at < s.until
group by s.started_at, s.ended_at
