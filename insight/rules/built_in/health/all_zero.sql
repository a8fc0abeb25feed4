-- name = "AllZero"
-- means = "All elements of a weight, its gradient or an output stay zero."
-- advice = "Check the initialization of these weights, whether the layer takes part in the loss, and whether a mask or a dead activation precedes it."
-- severity = "warning"
-- needs = ["weights", "gradients", "outputs"]
-- lookback = "6 h"
-- [parameters.threshold]
-- default = 100
-- unit = "percent"
-- help = "share of the elements that are zero, from which on the tensor counts"
-- [parameters.patience]
-- default = 10
-- unit = "watched steps"
-- help = "watched steps in a row at which a tensor is found before it counts; weights that begin as zero change within a few"

-- Biases, and gradients of biases, may be zero for good. So may a frozen weight: only one with a gradient counts.
with trained as (
    select distinct name from tensor_sets, unnest(names) as name where run_id = %(run)s and collection = 'gradients'
), found as (
    select x.tensor_set, x.collection || ' ' || t.name as name, x.place, x.watched, x.step, x.time, x.following, t.zeros::float8 as value
    from (select * from rule_tensors(%(run)s, %(start)s, %(stop)s, '{weights,gradients,outputs}')
          where (%(threshold)s / 100)::real <= any(zeros)) x
    cross join lateral unnest(x.names, x.zeros) as t (name, zeros)
    where t.zeros >= (%(threshold)s / 100)::real and t.name !~ 'bias'
      and (x.collection <> 'weights' or t.name in (select name from trained))
)
select s.started_at, s.ended_at, s.evidence
from (select array_agg(tensor_set) as sets, array_agg(name) as names, array_agg(place) as places, array_agg(watched) as watched,
             array_agg(step) as steps, array_agg(time) as times, array_agg(following) as following,
             array_agg(value) as values from found) f
cross join lateral rule_streaks(%(patience)s, 'zeros', 1, f.sets, f.names, f.places, f.watched, f.steps, f.times,
                                f.following, f.values) s
