-- name = "Throttled"
-- means = "Heat or power limits a GPU's clocks, so values of this time are not comparable with others."
-- advice = "Check the cooling and the neighbours in the chassis (heat), or the power limit (power); then measure again."
-- severity = "warning"
-- needs = ["gpus"]
-- lookback = "5 min"
-- [parameters.threshold]
-- default = 0.1
-- unit = "ratio"
-- help = "share of the time from which on throttling counts"
-- [parameters.minimum_duration]
-- default = "30 s"
-- help = "minimum duration of the condition"
-- [parameters.point]
-- default = "10 s"
-- help = "interval of the means"

with sources as (
    -- dcgm-exporter reports all reasons in one mask, whose series has no reason.
    select s.series_id, coalesce(d.device, s.device) as device, coalesce(s.labels ->> 'reason', 'unknown') as reason
    from placements p join places x on (x.host, x.gpu_uuid, x.origin) = (p.host, p.gpu_uuid, p.origin) and x.kind = 'gpu'
    join series s using (place_id) left join devices d using (place_id)
    where p.run_id = %(run)s and s.quantity = 'gpu_throttled'
), points as (
    select f.device, f.reason, x.time as started_at, sum(x.area) / nullif(sum(x.seconds), 0) as share
    from sources f
    join series_steps(array(select series_id from sources),
                      greatest(%(start)s, (select started_at from runs where run_id = %(run)s)),
                      least(%(stop)s, (select ended_at from runs where run_id = %(run)s)),
                      1000 * extract(epoch from %(point)s)::float8) x using (series_id)
    group by f.device, f.reason, x.time
), found as (
    select device, reason, array_agg(started_at) as times, array_agg(share >= %(threshold)s) as throttled
    from points group by device, reason
)
select s.started_at, s.ended_at, jsonb_build_object('device', f.device, 'reason', f.reason, 'share', avg(p.share)) as evidence
from found f
cross join lateral rule_intervals(f.times, f.throttled, %(minimum_duration)s, %(stop)s) s
join points p on (p.device, p.reason) = (f.device, f.reason) and p.started_at >= s.started_at and p.started_at < s.until
group by f.device, f.reason, s.started_at, s.ended_at
