-- name = "Overfit"
-- means = "The validation loss is well above the training loss, and has risen well above its lowest value: the model learns the training data by heart."
-- advice = "Use the checkpoint at the lowest validation loss, if that is well below the start; else check the labels, which may be random. Stop earlier (see Overtraining), add data or augmentation, weight decay or dropout, or use a smaller model."
-- severity = "warning"
-- needs = ["losses"]
-- [parameters.start_step]
-- default = 0
-- unit = "steps"
-- help = "training step from which on the losses are compared"
-- [parameters.patience]
-- default = 1
-- unit = "evaluations"
-- help = "evaluations in a row for which this is allowed"
-- [parameters.ratio_threshold]
-- default = 0.1
-- unit = "ratio"
-- help = "excess of the validation loss over the training loss, relative to the training loss"
-- [parameters.rise]
-- default = 0.1
-- unit = "ratio"
-- help = "increase of the validation loss over its lowest value, relative to that; an excess alone is usual"
-- [parameters.evaluations]
-- default = 3
-- unit = "evaluations"
-- help = "evaluations in a row whose mean losses are compared"
-- [parameters.learned]
-- default = 0.01
-- unit = "ratio"
-- help = "share of its start below which the validation loss is too small to matter"

with compared as (
    select * from rule_evaluations(%(run)s, %(stop)s)
), varied as (
    -- Second differences have the noise, and not the trend.
    select *, value - 2 * lag(value) over line + lag(value, 2) over line as bend, first_value(value) over line as first
    from compared where step >= %(start_step)s window line as (partition by model order by number)
), means as (
    -- The means of some evaluations, and the standard error of the distance of two of them.
    select *, avg(value) over recent as mean, avg(train) over recent as train_mean, count(*) over recent as n,
           sqrt(avg(bend ^ 2) over (partition by model order by number rows 49 preceding) / 6 * 2 / %(evaluations)s) as error
    from varied window recent as (partition by model order by number rows between %(evaluations)s::bigint - 1 preceding and current row)
), evaluated as (
    -- The more means there are, the further apart are the lowest and the highest by chance.
    select *, min(mean) over (partition by model order by number) as lowest from means where n = %(evaluations)s::bigint
), found as (
    -- A few evaluations in between do not end it: the losses are noisy.
    select *, count(*) filter (where apart) over (partition by model order by number) as part
    from (select *, number - lag(number) over (partition by model order by number) > 2 * %(patience)s + 3 as apart from evaluated
          where mean - train_mean > %(ratio_threshold)s * abs(train_mean)
            and mean - lowest > greatest(%(rise)s * abs(lowest), (1 + 2 * sqrt(ln(number))) * error) and mean > %(learned)s * abs(first)) x
)
select min(time) as started_at, case when count(following) = count(*) then max(time) end as ended_at,
       jsonb_build_object('train', (array_agg(train order by number desc))[1], 'validation', (array_agg(value order by number desc))[1],
                          'lowest', min(lowest), 'step', min(step), 'evaluations', count(*)) as evidence
from found group by model, part having count(*) > %(patience)s and max(time) >= %(start)s
