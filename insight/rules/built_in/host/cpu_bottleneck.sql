-- name = "CPUBottleneck"
-- means = "All cores are busy while the GPUs wait for data."
-- advice = "Preprocess once, on the GPU, or in more workers (see Dataloader); give the run more cores, or fewer neighbours on the host."
-- severity = "warning"
-- needs = ["gpus"]
-- lookback = "15 min"
-- [parameters.threshold]
-- default = 0.5
-- unit = "ratio"
-- help = "share of a window's time above which it is a bottleneck"
-- [parameters.gpu_threshold]
-- default = 0.1
-- unit = "ratio"
-- help = "GPU utilization below which a GPU waits"
-- [parameters.cpu_threshold]
-- default = 0.9
-- unit = "ratio"
-- help = "share of the available cores, or of the host's, above which they are busy"
-- [parameters.window]
-- default = "250 s"
-- help = "length of a window"
-- [parameters.warm_up]
-- default = "50 s"
-- help = "time after the run's start that is not evaluated"
-- [parameters.point]
-- default = "10 s"
-- help = "interval of the means"
-- [presets.smdebug]
-- warm_up = "500 s"

with points as (
    select c.started_at, greatest(c.used / nullif(c.available, 0), c.host_used / nullif(c.host_cores, 0)) as cpu, g.value as gpu
    from rule_cpu(%(run)s, %(start)s, %(stop)s, %(point)s) c
    join rule_points(%(run)s, '{gpu_utilization}', %(start)s, %(stop)s, %(point)s) g using (started_at)
), windows as (
    select rule_window(%(run)s, started_at, %(window)s, %(warm_up)s, %(start)s, %(stop)s) as begins,
           avg((cpu > %(cpu_threshold)s and gpu < %(gpu_threshold)s)::integer) as share, avg(cpu) as cpu, avg(gpu) as gpu
    from points group by begins
), evaluated as (
    select array_agg(begins) as times, array_agg(share > %(threshold)s) as found from windows where begins is not null
)
select s.started_at, s.ended_at, jsonb_build_object('share', avg(w.share), 'cpu', avg(w.cpu), 'gpu', avg(w.gpu)) as evidence
from evaluated
cross join lateral rule_intervals(times, found, '0', %(stop)s, %(window)s) s
join windows w on w.begins >= s.started_at and w.begins < s.until
group by s.started_at, s.ended_at
