-- name = "IOBottleneck"
-- means = "The host waits for its disks while the GPUs wait for data."
-- advice = "Read fewer and larger files, keep the data on a faster disk or in memory, prefetch in more workers; write checkpoints less often, or in the background."
-- severity = "warning"
-- needs = ["gpus"]
-- lookback = "15 min"
-- [parameters.threshold]
-- default = 0.5
-- unit = "ratio"
-- help = "share of a window's time above which it is a bottleneck"
-- [parameters.gpu_threshold]
-- default = 0.7
-- unit = "ratio"
-- help = "GPU utilization below which a GPU waits"
-- [parameters.io_threshold]
-- default = 0.5
-- unit = "ratio"
-- help = "I/O wait above which the host waits for disks, as a share of the available cores or of the host's time"
-- [parameters.window]
-- default = "250 s"
-- help = "length of a window"
-- [parameters.warm_up]
-- default = "500 s"
-- help = "time after the run's start that is not evaluated"
-- [parameters.point]
-- default = "10 s"
-- help = "interval of the means"
-- [presets.smdebug]
-- gpu_threshold = 0.1

with points as (
    -- Both are the host's: Linux has no I/O wait of single processes.
    select c.started_at, greatest(c.host_waited / nullif(c.available, 0), c.host_pressure) as waiting, g.value as gpu
    from rule_cpu(%(run)s, %(start)s, %(stop)s, %(point)s) c
    join rule_points(%(run)s, '{gpu_utilization}', %(start)s, %(stop)s, %(point)s) g using (started_at)
), windows as (
    select rule_window(%(run)s, started_at, %(window)s, %(warm_up)s, %(start)s, %(stop)s) as begins,
           avg((waiting > %(io_threshold)s and gpu < %(gpu_threshold)s)::integer) as share, avg(waiting) as waiting,
           avg(gpu) as gpu
    from points group by begins
), evaluated as (
    select array_agg(begins) as times, array_agg(share > %(threshold)s) as found from windows where begins is not null
)
select s.started_at, s.ended_at,
       jsonb_build_object('share', avg(w.share), 'host_waiting', avg(w.waiting), 'gpu', avg(w.gpu)) as evidence
from evaluated
cross join lateral rule_intervals(times, found, '0', %(stop)s, %(window)s) s
join windows w on w.begins >= s.started_at and w.begins < s.until
group by s.started_at, s.ended_at
