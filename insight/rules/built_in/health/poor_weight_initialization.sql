-- name = "PoorWeightInitialization"
-- means = "Variances differ widely from layer to layer in the first steps, or all elements of a weight stay the same, without a gradient; gradients are concentrated near zero, and the loss does not decrease."
-- advice = "Use an initialization that fits the activation, such as He for ReLU and Xavier for tanh; do not initialize all weights of a layer alike."
-- severity = "warning"
-- needs = ["gradients"]
-- [parameters.threshold]
-- default = 10.0
-- unit = "ratio"
-- help = "largest over smallest variance of the layers' activations, or of the weights where none are watched"
-- [parameters.distribution_range]
-- default = 0.001
-- help = "distance of the 5th from the 95th percentile of a layer's gradients, below which they are concentrated"
-- [parameters.patience]
-- default = 5
-- unit = "points"
-- help = "points of the loss whose mean is compared, at the start and after the first steps"
-- [parameters.steps]
-- default = 10
-- unit = "watched steps"
-- help = "first steps of the training that are evaluated; three are enough in a run that has ended, if they extend over 20 steps for each of these"
-- [parameters.diff_percent]
-- default = 1.0
-- unit = "percent"
-- help = "decrease of the loss in these steps from which on it decreases"

-- All three signs are needed: each alone is common in sound trainings. Biases, scales of normalizations and residual branches that
-- begin at zero change within a step, so the last of the first steps counts. Without quantiles, a distribution is taken as normal.
-- A run that has ended with few points of the loss compares its halves.
with trained as (
    select distinct name from tensor_sets, unnest(names) as name
    where run_id = %(run)s and collection = 'gradients' and name !~ 'bias'
), ended as (
    select exists (select from runs where run_id = %(run)s and ended_at <= %(stop)s) as ended
), ends as (
    select model, min(time) as begins, max(time) as ends, max(watched) as watched from (
        select bench_internal.model_of(tensor_set) as model, time, step, watched
        from rule_tensors(%(run)s, '-infinity', %(stop)s, '{gradients}', 'infinity') where watched <= %(steps)s) x
    group by model
    having max(watched) = %(steps)s or max(watched) >= 3 and max(step) - min(step) >= 20 * %(steps)s and (select ended from ended)
), first as (
    select bench_internal.model_of(x.tensor_set) as model, x.collection, t.name, t.std::float8 as std, t.l2
    from rule_tensors(%(run)s, '-infinity', %(stop)s, '{weights,gradients,relu,tanh,sigmoid}', 'infinity') x
    cross join lateral unnest(x.names, x.sizes, x.std, x.l2) as t (name, size, std, l2)
    join ends e on e.model = bench_internal.model_of(x.tensor_set) and e.watched = x.watched
    where t.size > 1
), layers as (
    select distinct on (model) model, min(std ^ 2) as least, max(std ^ 2) as most, active
    from (select model, std, collection in ('relu', 'tanh', 'sigmoid') as active from first
          where collection in ('relu', 'tanh', 'sigmoid') or collection = 'weights' and std > 0 and name in (select name from trained)) x
    group by model, active having count(*) > 1 order by model, active desc
), alike as (
    -- All elements are still the same, such as zero, and no gradient changes that. A normalization's scale has one.
    select w.model, count(*) as tensors
    from first w join first g on (g.model, g.collection, g.name) = (w.model, 'gradients', w.name)
    where w.collection = 'weights' and w.std = 0 and g.l2 = 0 and w.name in (select name from trained)
    group by w.model
), spread as (
    select model, min(3.29 * std) as range from first where collection = 'gradients' and name in (select name from trained)
    group by model
), points as (
    select model, value, row_number() over (partition by model order by time, step) as number, time <= ends as early
    from rule_losses(%(run)s, '-infinity', %(stop)s) left join ends using (model) where kind = 'train' and preferred
), losses as (
    select model, avg(value) filter (where number <= mean) as before,
           avg(value) filter (where number > n and number <= n + mean) as after,
           count(*) filter (where number > n and number <= n + mean) as points, max(mean) as needed
    from (select model, value, number, case when is_short then last / 2 else %(patience)s end as mean,
                 case when is_short then last - last / 2 else greatest(early_points, 2 * %(patience)s) end as n
          from (select *, last >= 3 and last < greatest(early_points, 2 * %(patience)s) + %(patience)s and (select ended from ended) as is_short
                from (select *, count(*) over (partition by model) as last,
                             count(*) filter (where early) over (partition by model) as early_points
                      from points) p) q) r
    group by model
)
select e.begins as started_at, e.ends as ended_at,
       jsonb_build_object('least_variance', l.least, 'largest_variance', l.most, 'gradient_range', s.range, 'loss_before', o.before,
                          'loss_after', o.after, 'of', case when a.tensors > 0 or not l.active then 'weights' else 'activations' end)
       || case when a.tensors > 0 then jsonb_build_object('alike', a.tensors) else '{}' end as evidence
from ends e join spread s using (model) join losses o using (model) left join layers l using (model) left join alike a using (model)
where (l.most > %(threshold)s * l.least or a.tensors > 0) and s.range < %(distribution_range)s and o.points >= o.needed
  and o.after > o.before - %(diff_percent)s / 100 * abs(o.before) and e.ends >= %(start)s
