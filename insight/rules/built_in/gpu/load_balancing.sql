-- name = "LoadBalancing"
-- means = "The load on the GPUs of the run is uneven: some wait for others."
-- advice = "Give each GPU the same share of data and model; check for work on one of them only, such as logging, evaluation or checkpoints."
-- severity = "warning"
-- needs = ["gpus"]
-- lookback = "15 min"
-- [parameters.threshold]
-- default = 0.5
-- unit = "ratio"
-- help = "distance between the utilization histograms of two GPUs above which the load is uneven: 0 for equal ones, 1 for disjoint ones"
-- [parameters.window]
-- default = "250 s"
-- help = "length of a window"
-- [parameters.warm_up]
-- default = "5 s"
-- help = "time after the run's start that is not evaluated"
-- [parameters.point]
-- default = "10 s"
-- help = "interval of the means"
-- [presets.smdebug]
-- warm_up = "500 s"

with points as (
    select device, value, rule_window(%(run)s, started_at, %(window)s, %(warm_up)s, %(start)s, %(stop)s) as begins
    from rule_points(%(run)s, '{gpu_utilization}', %(start)s, %(stop)s, %(point)s, true)
), histograms as (
    select begins, device, bin, count(*) / sum(count(*)) over (partition by begins, device) as share
    from points cross join lateral (select least(width_bucket(value, 0, 1, 10), 10) as bin) b
    where begins is not null group by begins, device, bin
), pairs as (
    select a.begins, a.device as one, b.device as other, 1 - sum(least(a.share, coalesce(h.share, 0))) as distance
    from histograms a
    join (select distinct begins, device from histograms) b on b.begins = a.begins and b.device > a.device
    left join histograms h on (h.begins, h.device, h.bin) = (b.begins, b.device, a.bin)
    group by a.begins, a.device, b.device
), windows as (
    select distinct on (begins) * from pairs order by begins, distance desc
), evaluated as (
    select array_agg(begins) as times, array_agg(distance > %(threshold)s) as found from windows
)
select s.started_at, s.ended_at,
       jsonb_build_object('distance', max(w.distance), 'devices', to_jsonb(array_agg(distinct w.one || ', ' || w.other)),
                          'utilization', (select jsonb_object_agg(device, mean) from (
                              select device, avg(value) as mean from points
                              where begins >= s.started_at and begins < s.until group by device) means)) as evidence
from evaluated
cross join lateral rule_intervals(times, found, '0', %(stop)s, %(window)s) s
join windows w on w.begins >= s.started_at and w.begins < s.until
group by s.started_at, s.ended_at, s.until
