-- name = "IOBottleneck"
-- means = "The host waits for its disks while the GPUs wait: data does not come fast enough."
-- advice = "Read fewer and larger files, keep the data on a faster disk or in memory, read ahead in more workers; write checkpoints less often, or in the background."
-- severity = "warning"
-- lookback = "15 min"
-- [parameters.threshold]
-- default = 0.5
-- unit = "ratio"
-- help = "of a window's time, beyond which it is a bottleneck"
-- [parameters.gpu_threshold]
-- default = 0.7
-- unit = "ratio"
-- help = "below this share of time with work a GPU waits"
-- [parameters.io_threshold]
-- default = 0.5
-- unit = "ratio"
-- help = "of the cores that the run may use, or of the host's time, above which it waits for disks"
-- [parameters.window]
-- default = "250 s"
-- help = "how long a window is"
-- [parameters.patience]
-- default = "500 s"
-- help = "what is not judged after the run's start"
-- [parameters.point]
-- default = "10 s"
-- help = "means are taken over this"
-- [presets.smdebug]
-- gpu_threshold = 0.1

with points as (
    -- Both are the host's: nobody says of a run alone how long it waited for a disk.
    select c.started_at, greatest(c.host_waited / nullif(c.available, 0), c.host_pressure) as waiting, g.value as gpu
    from rule_cpu(%(run)s, %(start)s, %(stop)s, %(point)s) c
    join rule_points(%(run)s, '{gpu_utilization}', %(start)s, %(stop)s, %(point)s) g using (started_at)
), windows as (
    select rule_window(%(run)s, started_at, %(window)s, %(patience)s, %(start)s, %(stop)s) as begins,
           avg((waiting > %(io_threshold)s and gpu < %(gpu_threshold)s)::integer) as share, avg(waiting) as waiting,
           avg(gpu) as gpu
    from points group by begins
), judged as (
    select array_agg(begins) as times, array_agg(share > %(threshold)s) as found from windows where begins is not null
)
select s.started_at, s.ended_at,
       jsonb_build_object('share', avg(w.share), 'host_waiting', avg(w.waiting), 'gpu', avg(w.gpu)) as evidence
from judged
cross join lateral rule_stretches(times, found, '0', %(stop)s, %(window)s) s
join windows w on w.begins >= s.started_at and w.begins < s.until
group by s.started_at, s.ended_at
