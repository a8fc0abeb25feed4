-- name = "DeadRelu"
-- means = "A layer of ReLUs is inactive: nearly all of its outputs are zero, so it passes no gradient."
-- advice = "Lower the learning rate, initialize its biases higher, normalize its inputs, or use LeakyReLU or GELU. Layers that are sparse on purpose look the same."
-- severity = "warning"
-- needs = ["relu"]
-- lookback = "6 h"
-- [parameters.threshold_inactivity]
-- default = 1.0
-- unit = "percent"
-- help = "share of non-zero outputs below which the layer is inactive"
-- [parameters.patience]
-- default = 5
-- unit = "watched steps"
-- help = "watched steps in a row at which a tensor is found before it counts"

with found as (
    select x.tensor_set, t.name, x.place, x.watched, x.step, x.time, x.following, t.zeros::float8 as value
    from (select * from rule_tensors(%(run)s, %(start)s, %(stop)s, '{relu}')
          where (1 - %(threshold_inactivity)s / 100)::real < any(zeros)) x
    cross join lateral unnest(x.names, x.zeros) as t (name, zeros)
    where t.zeros > (1 - %(threshold_inactivity)s / 100)::real
)
select s.started_at, s.ended_at, s.evidence
from (select array_agg(tensor_set) as sets, array_agg(name) as names, array_agg(place) as places, array_agg(watched) as watched,
             array_agg(step) as steps, array_agg(time) as times, array_agg(following) as following,
             array_agg(value) as values from found) f
cross join lateral rule_streaks(%(patience)s, 'zeros', 1, f.sets, f.names, f.places, f.watched, f.steps, f.times,
                                f.following, f.values) s
