-- name = "VanishingGradient"
-- means = "Gradients of weights are so small that the optimizer no longer changes them."
-- advice = "Check the activations before these weights (SaturatedActivation, DeadRelu) and their initialization. Use residual connections, normalization, ReLU-like activations or a loss scale."
-- severity = "warning"
-- needs = ["gradients"]
-- lookback = "6 h"
-- [parameters.threshold]
-- default = 1e-07
-- help = "mean absolute value of the gradient's non-zero elements, below which it vanishes"
-- [parameters.patience]
-- default = 5
-- unit = "watched steps"
-- help = "watched steps in a row at which a tensor is found before it counts"
-- [parameters.learned]
-- default = 0.1
-- unit = "ratio"
-- help = "share of its start to which the training loss has fallen when small gradients are a success"

-- Rows of an embedding without a token have no gradient, so only non-zero elements count. The gradient of a bias before a
-- normalization is zero by construction, so biases do not count.
with found as (
    select x.tensor_set, t.name, x.place, x.watched, x.step, x.time, x.following, m.mean as value
    from (select * from rule_tensors(%(run)s, %(start)s, %(stop)s, '{gradients}')
          -- The mean over the non-zero elements is at least that over all.
          where 1.001 * %(threshold)s * (select max(size) from unnest(sizes) as size) >= any(l1)) x
    cross join lateral unnest(x.names, x.sizes, x.l1, x.zeros) as t (name, size, l1, zeros)
    cross join lateral (select coalesce(t.l1 / nullif(t.size * (1 - coalesce(t.zeros, 0)::float8), 0), 0) as mean) m
    where t.l1 is not null and m.mean < %(threshold)s and t.name !~ 'bias'
      and x.time < (select rule_learned(%(run)s, %(stop)s, %(learned)s))
)
select s.started_at, s.ended_at, s.evidence
from (select array_agg(tensor_set) as sets, array_agg(name) as names, array_agg(place) as places, array_agg(watched) as watched,
             array_agg(step) as steps, array_agg(time) as times, array_agg(following) as following,
             array_agg(value) as values from found) f
cross join lateral rule_streaks(%(patience)s, 'mean_absolute', -1, f.sets, f.names, f.places, f.watched, f.steps, f.times,
                                f.following, f.values) s
