-- name = "StalledTraining"
-- means = "No step has ended for long, though the training had begun."
-- advice = "Read the run's output and its call stacks (bench profile): it may wait for data, for another rank or for a lock. Stop it if it hangs."
-- severity = "critical"
-- needs = ["steps"]
-- [parameters.threshold]
-- default = "30 min"
-- help = "maximum time without a step, an epoch or a phase that begins or ends; phases without steps, such as an evaluation or a checkpoint, are left out"
-- [parameters.longest]
-- default = 5
-- unit = "ratio"
-- help = "multiple of the longest pause so far that is allowed in any case"

with events as (
    select distinct time from (
        select unnest(array[started_at, ended_at]) as time from spans where run_id = %(run)s and kind in ('phase', 'epoch')
        union all
        (-- Of up to millions of steps, the first and the last of each minute.
         select unnest(array[min(ended_at), max(ended_at)]) from spans
         where run_id = %(run)s and kind = 'step' and ended_at is not null
         group by date_bin('1 min', ended_at, '2000-01-01'))
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
    where not (pause > %(threshold)s / %(longest)s
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
where time >= (select first from training) and pause > %(threshold)s and pause > %(longest)s * coalesce(before, '0') and coalesce(following, %(stop)s) >= %(start)s
