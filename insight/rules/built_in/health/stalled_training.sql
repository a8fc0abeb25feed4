-- name = "StalledTraining"
-- means = "No step has ended for long, though the training had begun."
-- advice = "Read the run's output and its call stacks (bench profile): it may wait for data, for another rank or for a lock. Stop it if it hangs."
-- severity = "critical"
-- needs = ["steps"]
-- [parameters.threshold]
-- default = "30 min"
-- help = "maximum time without a step, an epoch or a phase that begins or ends; phases without steps, such as an evaluation or a checkpoint, are left out"
-- [parameters.idle_threshold]
-- default = "30 s"
-- help = "the same, where the run's processes and GPUs are idle meanwhile: they are blocked"
-- [parameters.idle_cores]
-- default = 0.02
-- unit = "cores"
-- help = "cores below which processes are idle"
-- [parameters.idle_gpu]
-- default = 0.05
-- unit = "ratio"
-- help = "GPU utilization below which a GPU is idle"
-- [parameters.longest]
-- default = 5
-- unit = "ratio"
-- help = "multiple of the longest pause so far that is allowed in any case"

with events as (
    select distinct time from (
        select unnest(array[started_at, ended_at]) as time from spans where run_id = %(run)s and kind in ('phase', 'epoch')
        union all
        (-- Of up to millions of steps, the first and the last of each of 2000 intervals.
         select unnest(array[min(ended_at), max(ended_at)]) from spans
         where run_id = %(run)s and kind = 'step' and ended_at is not null
         group by date_bin(greatest('1 s', (%(stop)s::timestamptz - %(start)s::timestamptz) / 2000), ended_at, '2000-01-01'))
        union all
        select min(started_at) from spans where run_id = %(run)s and kind = 'step'
        union all
        select time from tensor_steps where run_id = %(run)s
    ) x where time <= %(stop)s
), training as (
    select min(started_at) as begins, min(ended_at) as first from spans where run_id = %(run)s and kind in ('step', 'epoch')
), pauses as (
    select time, lead(time) over (order by time) as following, coalesce(lead(time) over (order by time), %(stop)s) - time as pause
    from events where time >= (select begins from training)
), compared as (
    select *, max(pause) over (order by time rows between unbounded preceding and 1 preceding) as before
    from pauses p
    where not (pause > least(%(threshold)s, %(idle_threshold)s) / %(longest)s
               -- within an evaluation, a checkpoint or another phase in which no step has ended
               and exists (select from spans o
                           where o.run_id = %(run)s and o.kind = 'phase' and o.name <> 'train' and o.started_at <= p.time
                             and coalesce(o.ended_at, %(stop)s) >= coalesce(p.following, %(stop)s)
                             and not exists (select from spans s
                                             where s.run_id = %(run)s and s.kind = 'step' and s.started_at >= o.started_at
                                               and s.ended_at <= p.time)))
)
select time as started_at, following as ended_at,
       jsonb_build_object('seconds', extract(epoch from pause),
                          'step', (select max(step) from spans where run_id = %(run)s and kind = 'step' and ended_at <= c.time)) as evidence
from compared c
where time >= (select first from training) and pause > least(%(threshold)s, %(idle_threshold)s)
  and (pause > %(threshold)s
       or (select count(*) filter (where quantity = 'cpu_usage') > 2 and avg(value) filter (where quantity = 'cpu_usage') < %(idle_cores)s
                  and coalesce(max(value) filter (where quantity = 'gpu_utilization'), 0) < %(idle_gpu)s
           from (select * from rule_points(%(run)s, '{cpu_usage}', c.time, coalesce(c.following, %(stop)s), '5 s', false, '{process}')
                 union all
                 select * from rule_points(%(run)s, '{gpu_utilization}', c.time, coalesce(c.following, %(stop)s), '5 s')) p
           where p.started_at >= c.time))
  and pause > %(longest)s * coalesce(before, '0') and coalesce(following, %(stop)s) >= %(start)s
