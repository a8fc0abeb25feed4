-- name = "SaturatedActivation"
-- means = "Nearly all outputs of a tanh or sigmoid are at its bounds, where its gradient is zero, while the training loss has not fallen much."
-- advice = "Normalize the inputs of these layers, initialize their weights smaller, lower the learning rate, or use ReLU-like activations."
-- severity = "warning"
-- needs = ["tanh", "sigmoid"]
-- lookback = "6 h"
-- [parameters.threshold_layer]
-- default = 90
-- unit = "percent"
-- help = "share of the outputs within 1 % of a bound, above which the layer is saturated"
-- [parameters.patience]
-- default = 10
-- unit = "watched steps"
-- help = "watched steps in a row at which a tensor is found before it counts"
-- [parameters.learned]
-- default = 0.5
-- unit = "ratio"
-- help = "share of its start to which the training loss has fallen when saturated outputs are confident ones"

with found as (
    select x.tensor_set, t.name, x.place, x.watched, x.step, x.time, x.following, t.saturated::float8 as value
    from (select * from rule_tensors(%(run)s, %(start)s, %(stop)s, '{tanh,sigmoid}')
          where (%(threshold_layer)s / 100)::real < any(saturated)) x
    cross join lateral unnest(x.names, x.saturated) as t (name, saturated)
    where t.saturated > (%(threshold_layer)s / 100)::real
      and x.time < (select rule_learned(%(run)s, %(stop)s, %(learned)s))
)
select s.started_at, s.ended_at, s.evidence
from (select array_agg(tensor_set) as sets, array_agg(name) as names, array_agg(place) as places, array_agg(watched) as watched,
             array_agg(step) as steps, array_agg(time) as times, array_agg(following) as following,
             array_agg(value) as values from found) f
cross join lateral rule_streaks(%(patience)s, 'saturated', 1, f.sets, f.names, f.places, f.watched, f.steps, f.times,
                                f.following, f.values) s
