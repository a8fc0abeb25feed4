-- name = "LossNotDecreasing"
-- means = "The training loss is still as high as at the start, has risen and lost most of its progress, or stays far above its first value."
-- advice = "Check the learning rate (too high: the loss rises; too low: it stays), the labels, that the optimizer has all parameters, and that gradients are zeroed each step."
-- severity = "warning"
-- needs = ["losses"]
-- [parameters.num_steps]
-- default = 10
-- unit = "points"
-- help = "points of the loss in a row whose mean is compared"
-- [parameters.diff_percent]
-- default = 0.1
-- unit = "percent"
-- help = "decrease from one such mean to the next, below which the loss is flat"
-- [parameters.increase_threshold_percent]
-- default = 5
-- unit = "percent"
-- help = "increase of the mean over its lowest value, above which the loss has risen"
-- [parameters.progress_percent]
-- default = 1
-- unit = "percent"
-- help = "total decrease since the start from which on a flat loss has converged"
-- [parameters.explosion]
-- default = 10
-- unit = "ratio"
-- help = "loss over its first point, which counts as 1 if it is below, from which on it has exploded: as the mean of the first points, or for `patience` points in a row; the start is then the first point alone"
-- [parameters.lost_progress]
-- default = 0.5
-- unit = "ratio"
-- help = "share of the total decrease that a rise must undo"
-- [parameters.patience]
-- default = 30
-- unit = "points"
-- help = "points since the start, or in a row, before it counts; the learning rate may warm up"

-- Points are watched steps, each with the mean of all steps since the one before, or values of a logged loss.
with watched as (
    -- The last point is left out: it may be written at the end of the process.
    select process, model, min(time) as begins, (array_agg(time order by time desc))[2] as ends
    from (select substring(s.tensor_set from '^[^-]+-[^-]+') as process, bench_internal.model_of(s.tensor_set) as model, v.time
          from tensor_sets s join tensor_steps v on v.run_id = s.run_id and v.tensor_set = s.tensor_set
          where s.run_id = %(run)s and s.collection = 'losses' and v.time < %(stop)s
            and exists (select from unnest(s.names) as name where name !~ 'val_loss$')) x
    group by process, model
), parts as (
    -- Models of a process that train at the same time, such as those of a GAN.
    select distinct a.model
    from watched a join watched b on a.process = b.process and a.model <> b.model and a.begins < b.ends and b.begins < a.ends
), valued as (
    select *, row_number() over line as number, first_value(value) over line as start
    from rule_losses(%(run)s, '-infinity', %(stop)s)
    where kind = 'train' and preferred and model not in (select model from parts)
    window line as (partition by model order by time, step)
), compared_to_start as (
    select *, value > %(explosion)s * greatest(abs(start), 1) as is_far from valued
), islands as (
    select *, count(*) filter (where not is_far) over (partition by model order by number) as island from compared_to_start
), points as (
    select model, step, time, value, number, nonfinite, start,
           coalesce(is_far and count(*) filter (where is_far) over (partition by model, island) >= %(patience)s, false) as exploded
    from islands
), progress as (
    select *, avg(value) over line as mean, stddev_samp(value) over line / sqrt(%(num_steps)s) as error,
           min(value) over (partition by model order by number rows between current row and 2 following)
           - max(value) over (partition by model order by number rows between 3 preceding and 1 preceding) as jump
    from points where not nonfinite
    window line as (partition by model order by number rows between %(num_steps)s::bigint preceding and 1 preceding)
), jumps as (
    select *, first_value(mean) over line - min(mean) over line as decrease,
           greatest(first_value(error) over line, error) as noise, first_value(mean) over line as first
    from progress where number > %(num_steps)s window line as (partition by model order by number)
), trainings as (
    -- A sudden jump that undoes the decrease begins another training, such as the next fold of a logged loss; one that stays there
    -- is found.
    select p.*, count(*) filter (where j.jump > greatest(%(lost_progress)s * j.decrease, %(increase_threshold_percent)s / 100 * abs(j.first))
                                   and j.decrease > 4 * j.noise and not p.exploded) over (partition by p.model order by p.number) as training
    from points p left join jumps j using (model, number)
), numbered as (
    select step, time, value, nonfinite, model, start, exploded, training, row_number() over (partition by model, training order by number) as number
    from trainings
), means as (
    select step, time, model, start, exploded, training, number, first_value(value) over (partition by model, training order by number) as begin,
           avg(value) over line as mean, stddev_samp(value) over line / sqrt(%(num_steps)s) as error
    from numbered where not nonfinite
    window line as (partition by model, training order by number range between (%(num_steps)s::bigint - 1) preceding and current row)
), compared as (
    select *, case when exploded then start
                   when first_value(mean) over line > %(explosion)s * greatest(abs(begin), 1) then begin
                   else first_value(mean) over line end as first,
           case when first_value(mean) over line > %(explosion)s * greatest(abs(begin), 1) then 0
                else first_value(error) over line end as first_error, min(mean) over line as lowest,
           max(mean) over (partition by model, training order by number
                           range between %(num_steps)s::bigint preceding and %(num_steps)s::bigint preceding) as previous
    from means where number >= %(num_steps)s or exploded window line as (partition by model, training order by number)
), evaluated as (
    select *, exploded
              or (-- as high as at the start, and flat within its noise
               mean > first - %(progress_percent)s / 100 * abs(first) and lowest > first - 3 * %(progress_percent)s / 100 * abs(first)
               and mean > previous - greatest(%(diff_percent)s / 100 * abs(previous), 2 * error) and number > %(patience)s)
              or (-- risen, more than by chance, and most of the decrease lost
               mean > lowest + %(increase_threshold_percent)s / 100 * abs(lowest) and mean > lowest + %(lost_progress)s * (first - lowest)
               and mean - lowest > 4 * coalesce(greatest(error, first_error), 0)
               and mean - lowest > %(increase_threshold_percent)s / 100 * abs(first)) as holds
    from compared
), found as (
    -- A few points in between do not end it: the loss is noisy.
    select *, count(*) filter (where apart) over (partition by model, training order by number) as part
    from (select *, number - lag(number) over (partition by model, training order by number) > %(num_steps)s as apart
          from (select *, lead(time) over (order by time, step) as following from evaluated) e where holds) x
), halves as (
    -- A run that has ended with few points, far apart: the median of the second half is compared with the lowest of the
    -- first half, which may have spikes, without the first point.
    select model, min(time) as begins, min(step) as first_step, max(start) as start, count(*) + 1 as points,
           min(value) filter (where number <= (last + 1) / 2) as early,
           percentile_cont(0.5) within group (order by value) filter (where number > (last + 1) / 2) as late, min(value) as lowest,
           bool_and(is_far) as is_far
    from (select *, max(number) over line as last, max(step) over line - min(step) over line as steps
          from compared_to_start where not nonfinite window line as (partition by model)) x
    where number > 1 and last between 5 and %(patience)s - 1 and steps >= 20 * %(patience)s
      and exists (select from runs where run_id = %(run)s and ended_at <= %(stop)s)
    group by model having max(time) >= %(start)s
)
select min(time) as started_at, case when count(following) = count(*) then max(time) end as ended_at,
       jsonb_build_object('first', min(first), 'lowest', min(lowest), 'loss', (array_agg(mean order by number desc))[1],
                          'step', min(step), 'points', count(*)) as evidence
from found group by model, training, part
having count(*) >= %(num_steps)s and max(number) >= %(patience)s and max(time) >= %(start)s
union all
select begins, null, jsonb_build_object('first', start, 'lowest', lowest, 'loss', late, 'step', first_step, 'points', points)
from halves
where late > start - %(progress_percent)s / 100 * abs(start) and lowest > start - 3 * %(progress_percent)s / 100 * abs(start)
  and (is_far or late > early - %(progress_percent)s / 100 * abs(early)
                 -- A first loss near 0 tells nothing.
                 and (late <= %(explosion)s * abs(start) or late > %(explosion)s))
