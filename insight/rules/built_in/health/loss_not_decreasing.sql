-- name = "LossNotDecreasing"
-- means = "The training loss is still as high as at the start, or has risen and lost most of its progress."
-- advice = "Check the learning rate (too high: the loss rises; too low: it stays), the labels, that the optimizer has all parameters, and that gradients are zeroed each step. For a GAN, switch the rule off."
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
-- help = "mean of the first points over the first one, above which the loss has exploded at once, and the first point alone is the start"
-- [parameters.lost_progress]
-- default = 0.5
-- unit = "ratio"
-- help = "share of the total decrease that a rise must undo"
-- [parameters.patience]
-- default = 30
-- unit = "points"
-- help = "points since the start, or in a row, before it counts; the learning rate may warm up"

-- Points are watched steps, each with the mean of all steps since the one before, or values of a logged loss.
with points as (
    select model, step, time, value, row_number() over (partition by model order by time, step) as number, nonfinite
    from rule_losses(%(run)s, '-infinity', %(stop)s) where kind = 'train' and preferred
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
                                   and j.decrease > 4 * j.noise) over (partition by p.model order by p.number) as training
    from points p left join jumps j using (model, number)
), numbered as (
    select step, time, value, nonfinite, model, training, row_number() over (partition by model, training order by number) as number
    from trainings
), means as (
    select step, time, model, training, number, first_value(value) over (partition by model, training order by number) as begin,
           avg(value) over line as mean, stddev_samp(value) over line / sqrt(%(num_steps)s) as error
    from numbered where not nonfinite
    window line as (partition by model, training order by number range between (%(num_steps)s::bigint - 1) preceding and current row)
), compared as (
    select *, case when first_value(mean) over line > %(explosion)s * abs(begin) then begin else first_value(mean) over line end as first,
           case when first_value(mean) over line > %(explosion)s * abs(begin) then 0 else first_value(error) over line end as first_error, min(mean) over line as lowest,
           max(mean) over (partition by model, training order by number
                           range between %(num_steps)s::bigint preceding and %(num_steps)s::bigint preceding) as previous
    from means where number >= %(num_steps)s window line as (partition by model, training order by number)
), evaluated as (
    select *, (-- as high as at the start, and flat within its noise
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
)
select min(time) as started_at, case when count(following) = count(*) then max(time) end as ended_at,
       jsonb_build_object('first', min(first), 'lowest', min(lowest), 'loss', (array_agg(mean order by number desc))[1],
                          'step', min(step), 'points', count(*)) as evidence
from found group by model, training, part
having count(*) >= %(num_steps)s and max(number) >= %(patience)s and max(time) >= %(start)s
