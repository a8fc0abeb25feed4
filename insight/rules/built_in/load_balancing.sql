-- name = "LoadBalancing"
-- means = "The GPUs of the run are not equally at work: some wait for others."
-- advice = "Give each the same amount of data and of the model; look at what only one of them does, such as logging, evaluation or checkpoints."
-- severity = "warning"
-- lookback = "15 min"
-- [parameters.threshold]
-- default = 0.5
-- unit = "ratio"
-- help = "from this distance on between the histograms of two GPUs' utilization: 0 where they are equal, 1 where they have nothing in common"
-- [parameters.window]
-- default = "250 s"
-- help = "how long a window is"
-- [parameters.patience]
-- default = "5 s"
-- help = "what is not judged after the run's start"
-- [parameters.point]
-- default = "10 s"
-- help = "means are taken over this"
-- [presets.smdebug]
-- patience = "500 s"

with points as (
    select device, value, rule_window(%(run)s, started_at, %(window)s, %(patience)s, %(start)s, %(stop)s) as begins
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
), judged as (
    select array_agg(begins) as times, array_agg(distance > %(threshold)s) as found from windows
)
select s.started_at, s.ended_at,
       jsonb_build_object('distance', max(w.distance), 'devices', to_jsonb(array_agg(distinct w.one || ', ' || w.other)),
                          'utilization', (select jsonb_object_agg(device, mean) from (
                              select device, avg(value) as mean from points
                              where begins >= s.started_at and begins < s.until group by device) means)) as evidence
from judged
cross join lateral rule_stretches(times, found, '0', %(stop)s, %(window)s) s
join windows w on w.begins >= s.started_at and w.begins < s.until
group by s.started_at, s.ended_at, s.until
