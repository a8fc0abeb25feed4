-- name = "CPUBottleneck"
-- means = "The cores are used up while the GPUs wait: they are not fed fast enough."
-- advice = "Do preprocessing once, on the GPU, or in more workers (see Dataloader); give the run more cores, or fewer neighbours on the host."
-- severity = "warning"
-- lookback = "15 min"
-- [parameters.threshold]
-- default = 0.5
-- unit = "ratio"
-- help = "of a window's time, beyond which it is a bottleneck"
-- [parameters.gpu_threshold]
-- default = 0.1
-- unit = "ratio"
-- help = "below this share of time with work a GPU waits"
-- [parameters.cpu_threshold]
-- default = 0.9
-- unit = "ratio"
-- help = "of the cores that the run may use, or of the host's, above which they are used up"
-- [parameters.window]
-- default = "250 s"
-- help = "how long a window is"
-- [parameters.patience]
-- default = "50 s"
-- help = "what is not judged after the run's start"
-- [parameters.point]
-- default = "10 s"
-- help = "means are taken over this"
-- [presets.smdebug]
-- patience = "500 s"

with points as (
    select c.started_at, greatest(c.used / nullif(c.available, 0), c.host_used / nullif(c.host_cores, 0)) as cpu, g.value as gpu
    from rule_cpu(%(run)s, %(start)s, %(stop)s, %(point)s) c
    join rule_points(%(run)s, '{gpu_utilization}', %(start)s, %(stop)s, %(point)s) g using (started_at)
), windows as (
    select rule_window(%(run)s, started_at, %(window)s, %(patience)s, %(start)s, %(stop)s) as begins,
           avg((cpu > %(cpu_threshold)s and gpu < %(gpu_threshold)s)::integer) as share, avg(cpu) as cpu, avg(gpu) as gpu
    from points group by begins
), judged as (
    select array_agg(begins) as times, array_agg(share > %(threshold)s) as found from windows where begins is not null
)
select s.started_at, s.ended_at, jsonb_build_object('share', avg(w.share), 'cpu', avg(w.cpu), 'gpu', avg(w.gpu)) as evidence
from judged
cross join lateral rule_stretches(times, found, '0', %(stop)s, %(window)s) s
join windows w on w.begins >= s.started_at and w.begins < s.until
group by s.started_at, s.ended_at
