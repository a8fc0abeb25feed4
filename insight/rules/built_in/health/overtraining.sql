-- name = "Overtraining"
-- means = "The validation loss has not improved for many evaluations, and the training loss no longer improves or the validation loss rises: further training does not help."
-- advice = "Stop the run: use the checkpoint at the lowest validation loss, if that is well below a guess; else check the labels, which may be random. The action stop-run does so by itself (early stopping)."
-- severity = "info"
-- needs = ["losses"]
-- [parameters.patience_train]
-- default = 5
-- unit = "evaluations"
-- help = "evaluations without improvement after which the training loss no longer improves"
-- [parameters.patience_validation]
-- default = 10
-- unit = "evaluations"
-- help = "evaluations without improvement after which the validation loss no longer improves"
-- [parameters.delta]
-- default = 0.01
-- unit = "ratio"
-- help = "decrease of a loss from which on it is an improvement, relative to its value"
-- [parameters.progress]
-- default = 0.02
-- unit = "ratio"
-- help = "decrease of the losses since the first evaluation, or a fourth of that since the first training losses, below which the model has learned nothing; no checkpoint is good then"
-- [parameters.learned]
-- default = 0.01
-- unit = "ratio"
-- help = "share of its start below which the validation loss is too small to matter"

with begins as (
    select distinct on (model) model, value as train_begin from rule_losses(%(run)s, '-infinity', %(stop)s)
    where kind = 'train' and preferred and not nonfinite order by model, time, step
), compared as (
    select * from rule_evaluations(%(run)s, %(stop)s)
), evaluated as (
    -- The newest evaluations against those before them: means, because single values are noisy.
    select *, min(value) over recent as recent, min(value) over earlier as lowest, avg(value) over recent as mean,
           avg(value) over (partition by model order by number rows between 2 * %(patience_validation)s::bigint - 1 preceding
                            and %(patience_validation)s::bigint preceding) as mean_before,
           avg(train) over (partition by model order by number rows between %(patience_train)s::bigint - 1 preceding and current row) as train_mean,
           avg(train) over (partition by model order by number rows between 2 * %(patience_train)s::bigint - 1 preceding
                            and %(patience_train)s::bigint preceding) as train_before,
           first_value(value) over earlier as first,
           min(train) over (partition by model order by number) as train_lowest,
           -- The first evaluation may come late: the training loss before it is nearer to the start, unless it exploded at once.
           case when first_value(train) over earlier < 10 * abs(first_value(value) over earlier)
                then first_value(train) over earlier end as begin,
           -- standard error of the distance of the two means
           sqrt((coalesce(var_samp(value) over recent, 0)
                 + coalesce(var_samp(value) over (partition by model order by number rows between 2 * %(patience_validation)s::bigint - 1 preceding
                                                  and %(patience_validation)s::bigint preceding), 0))
                / %(patience_validation)s) as error
    from compared
    window recent as (partition by model order by number rows between %(patience_validation)s::bigint - 1 preceding and current row),
           earlier as (partition by model order by number rows between unbounded preceding and %(patience_validation)s::bigint preceding)
), found as (
    -- A few evaluations in between do not end it: the losses are noisy.
    select *, count(*) filter (where apart) over (partition by model order by number) as part
    from (select *, number - lag(number) over (partition by model order by number) > %(patience_validation)s as apart
          from evaluated left join begins using (model)
          -- A loss falls a little until the outputs have the frequencies of random labels. A first training loss far below the
          -- first validation loss is no start: a first tree has learned already.
          where (lowest < first - %(progress)s * abs(first) and coalesce(lowest < begin - %(progress)s * abs(begin), true)
                 or lowest < begin - 4 * %(progress)s * abs(begin) or train_begin < first - 4 * %(progress)s * abs(first))
            and coalesce(train_lowest < train_begin - %(progress)s * abs(train_begin), true) and recent > lowest - %(delta)s * abs(lowest) and value > %(learned)s * abs(first)
            and (train_mean > train_before - %(delta)s * abs(train_before) and mean > mean_before - %(delta)s * abs(mean_before)
                 or mean > mean_before + greatest(%(delta)s * abs(mean_before), 2 * error))) x
)
select min(time) as started_at, case when count(following) = count(*) then max(time) end as ended_at,
       jsonb_build_object('lowest', min(lowest), 'validation', (array_agg(value order by number desc))[1],
                          'train', (array_agg(train order by number desc))[1], 'step', min(step),
                          'best_step', (select c.step from compared c where c.model = f.model order by c.value, c.number limit 1)) as evidence
from found f group by f.model, part having max(time) >= %(start)s
