-- name = "ExplodingTensor"
-- means = "The norm of the gradients or weights is far above its usual value or the weights' first one, or no longer finite, for several steps."
-- advice = "Lower the learning rate, warm it up, clip the gradients, or check the data of these steps. Continue from a checkpoint before the first of them."
-- severity = "critical"
-- needs = ["gradients", "weights"]
-- lookback = "6 h"
-- [parameters.growth]
-- default = 100
-- unit = "ratio"
-- help = "norm of all tensors of a collection, over the median of its earlier steps, above which it explodes"
-- [parameters.history]
-- default = 5
-- unit = "watched steps"
-- help = "earlier steps with a finite norm that are needed for a median"
-- [parameters.element]
-- default = 10
-- help = "root mean square of all weights above which they may have exploded in the first steps, before there is a usual value; the loss must be above its start"
-- [parameters.patience]
-- default = 3
-- unit = "watched steps"
-- help = "watched steps in a row at which the norm is too large before it counts"

-- The first steps under a loss scale may overflow, and single steps may have a large gradient: neither counts.
with norms as materialized (
    select x.tensor_set, x.collection as name, x.place, x.watched, x.step, x.time, x.following, x.sizes,
           coalesce(x.norm, (select sqrt(sum(one::float8 ^ 2)) from unnest(x.l2) one)) as norm, 0 < any(x.nonfinite) as nonfinite
    from rule_tensors(%(run)s, %(start)s, %(stop)s, '{gradients,weights}') x
), finite as (
    select *, case when nonfinite is not true then norm end as value,
           count(*) filter (where nonfinite is not true and norm > 0)
               over (partition by tensor_set order by place rows between unbounded preceding and 1 preceding) as earlier
    from norms
), usual as (
    -- The median of the first steps: that of all earlier steps would rise with the tensor.
    select tensor_set, percentile_cont(0.5) within group (order by value) as median, (array_agg(value order by place))[1] as first
    from finite where value > 0 and earlier < greatest(%(history)s, 20) group by tensor_set
), losses as (
    select (array_agg(value order by number) filter (where not nonfinite))[1] as first,
           avg(value) filter (where number > last - 5) as newest, bool_or(nonfinite) filter (where number > last - 5) as lost
    from (select *, row_number() over (order by time, step) as number, count(*) over () as last
          from rule_losses(%(run)s, '-infinity', %(stop)s) where kind = 'train' and preferred) x
), found as (
    -- An explosion in the first steps is the usual value itself. Weights that begin near zero grow by more, while the loss falls.
    select f.tensor_set, f.name, f.place, f.watched, f.step, f.time, f.following, f.value
    from finite f join usual u using (tensor_set)
    where f.earlier >= %(history)s and f.nonfinite
       or f.earlier >= %(history)s and f.name = 'gradients' and f.value > %(growth)s * u.median
       or f.name = 'weights' and (select coalesce(lost or newest > first, true) from losses)
          and (f.earlier >= %(history)s and f.value > %(growth)s * u.median
               or f.value > %(growth)s * u.first and f.value > %(element)s * sqrt((select sum(size)::float8 from unnest(f.sizes) size)))
)
select s.started_at, s.ended_at, s.evidence
from (select array_agg(tensor_set) as sets, array_agg(name) as names, array_agg(place) as places, array_agg(watched) as watched,
             array_agg(step) as steps, array_agg(time) as times, array_agg(following) as following,
             array_agg(value) as values from found) f
cross join lateral rule_streaks(%(patience)s, 'norm', 1, f.sets, f.names, f.places, f.watched, f.steps, f.times,
                                f.following, f.values) s
