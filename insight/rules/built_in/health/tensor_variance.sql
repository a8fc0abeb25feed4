-- name = "TensorVariance"
-- means = "The variance of a trained weight is very large, or very small."
-- advice = "Check the initialization of these weights and the learning rate; use weight decay or normalization."
-- severity = "info"
-- needs = ["weights"]
-- lookback = "6 h"
-- [parameters.max_threshold]
-- default = 10
-- help = "upper limit of the variance"
-- [parameters.min_threshold]
-- default = 0
-- help = "lower limit of the variance; 0 for none, because scales of normalizations begin without variance"
-- [parameters.patience]
-- default = 5
-- unit = "watched steps"
-- help = "watched steps in a row at which a tensor is found before it counts"

-- Only weights with a gradient count: fixed features may have any scale.
with trained as (
    select distinct name from tensor_sets, unnest(names) as name where run_id = %(run)s and collection = 'gradients'
), found as (
    select x.tensor_set, t.name, x.place, x.watched, x.step, x.time, x.following, t.std::float8 ^ 2 as value
    from (select * from rule_tensors(%(run)s, %(start)s, %(stop)s, '{weights}')
          where sqrt(%(max_threshold)s)::real < any(std) or sqrt(%(min_threshold)s)::real > any(std)) x
    cross join lateral unnest(x.names, x.sizes, x.std) as t (name, size, std)
    where t.size > 1 and (t.std > sqrt(%(max_threshold)s) or t.std < sqrt(%(min_threshold)s))
      and t.name in (select name from trained)
)
select s.started_at, s.ended_at, s.evidence
from (select array_agg(tensor_set) as sets, array_agg(name) as names, array_agg(place) as places, array_agg(watched) as watched,
             array_agg(step) as steps, array_agg(time) as times, array_agg(following) as following,
             array_agg(value) as values from found) f
cross join lateral rule_streaks(%(patience)s, 'variance', 1, f.sets, f.names, f.places, f.watched, f.steps, f.times,
                                f.following, f.values) s
