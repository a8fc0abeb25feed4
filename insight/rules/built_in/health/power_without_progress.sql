-- name = "PowerWithoutProgress"
-- means = "The training loss has been flat for long, while the GPUs draw much power."
-- advice = "Stop the run if it has converged; the evidence has the energy that it has used since. Otherwise change the learning rate or its schedule."
-- severity = "info"
-- needs = ["losses"]
-- [parameters.duration]
-- default = "20 min"
-- help = "time for which the loss is flat"
-- [parameters.diff_percent]
-- default = 0.1
-- unit = "percent"
-- help = "decrease of the mean loss from one half of this time to the other, below which it is flat"
-- [parameters.points]
-- default = 10
-- unit = "points"
-- help = "points of the loss that each half needs"
-- [parameters.power_share]
-- default = 0.5
-- unit = "ratio"
-- help = "share of the GPUs' power limit, or of the highest power where no limit is known, above which power is high"
-- [parameters.point]
-- default = "1 min"
-- help = "interval of the means of the power"

with points as (
    select model, time, value from rule_losses(%(run)s, '-infinity', %(stop)s) where kind = 'train' and preferred and not nonfinite
), compared as (
    select time, avg(value) over newer as newer, avg(value) over older as older, count(*) over newer as n, count(*) over older as m
    from points
    window newer as (partition by model order by time range between (%(duration)s / 2) preceding and current row),
           older as (partition by model order by time range between %(duration)s preceding and (%(duration)s / 2) preceding)
), flat as (
    select array_agg(time order by time) as times,
           array_agg(n >= %(points)s and m >= %(points)s and older - newer < %(diff_percent)s / 100 * abs(older) order by time) as holds
    from compared having count(*) >= 2 * %(points)s
), intervals as (
    -- A mean covers the time before it.
    select s.started_at - %(duration)s as started_at, s.ended_at, s.until from flat
    cross join lateral rule_intervals(times, holds, '0', %(stop)s) s
), power as materialized (
    select started_at, max(value) filter (where quantity = 'gpu_power') as watts, max(value) filter (where quantity = 'gpu_power_limit') as most
    from rule_points(%(run)s, '{gpu_power,gpu_power_limit}', (select min(started_at) from intervals), %(stop)s, %(point)s)
    where exists (select from intervals) group by started_at
), means as (
    select i.started_at, i.ended_at, avg(p.watts) as watts, coalesce(avg(p.most), (select max(watts) from power)) as most,
           extract(epoch from i.until - i.started_at)::float8 as seconds
    from intervals i join power p on p.started_at >= i.started_at and p.started_at < i.until
    group by i.started_at, i.ended_at, i.until
)
select started_at, ended_at,
       jsonb_build_object('watts', watts, 'limit_watts', most, 'seconds', seconds, 'kilowatt_hours', watts * seconds / 3.6e6,
                          'loss', (select avg(value) from points where time >= m.started_at)) as evidence
from means m where watts > %(power_share)s * most and coalesce(ended_at, %(stop)s) >= %(start)s
