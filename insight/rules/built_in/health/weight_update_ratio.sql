-- name = "WeightUpdateRatio"
-- means = "The optimizer changes a weight by far more, or by far less, than its own size in each step."
-- advice = "Change the learning rate, for these weights or for all: about 0.001 of a weight per step is usual."
-- severity = "warning"
-- needs = ["weights"]
-- lookback = "6 h"
-- [parameters.large_threshold]
-- default = 10.0
-- unit = "ratio"
-- help = "norm of the change over the norm of the weight, above which it is large"
-- [parameters.small_threshold]
-- default = 1e-08
-- unit = "ratio"
-- help = "norm of the change over the norm of the weight, below which it is small"
-- [parameters.epsilon]
-- default = 1e-09
-- help = "norm up to which a weight does not count: it was initialized as zero"
-- [parameters.patience]
-- default = 5
-- unit = "watched steps"
-- help = "watched steps in a row at which a tensor is found before it counts"

-- A ratio of zero is no small update but none: the step was skipped, or see UnchangedTensor.
with found as (
    select x.tensor_set, t.name, x.place, x.watched, x.step, x.time, x.following, t.ratio::float8 as value
    from (select * from rule_tensors(%(run)s, %(start)s, %(stop)s, '{weights}')
          where %(large_threshold)s::real < any(update_ratio) or %(small_threshold)s::real > any(update_ratio)) x
    cross join lateral unnest(x.names, x.l2, x.update_ratio) as t (name, l2, ratio)
    where (t.ratio > %(large_threshold)s or t.ratio > 0 and t.ratio < %(small_threshold)s) and t.l2 > %(epsilon)s
)
select s.started_at, s.ended_at, s.evidence
from (select array_agg(tensor_set) as sets, array_agg(name) as names, array_agg(place) as places, array_agg(watched) as watched,
             array_agg(step) as steps, array_agg(time) as times, array_agg(following) as following,
             array_agg(value) as values from found) f
cross join lateral rule_streaks(%(patience)s, 'ratio', 1, f.sets, f.names, f.places, f.watched, f.steps, f.times,
                                f.following, f.values) s
