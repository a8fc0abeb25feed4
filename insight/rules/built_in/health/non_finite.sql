-- name = "NonFinite"
-- means = "A weight or a loss is NaN or infinite, or gradients are for many steps: the training is lost from there on."
-- advice = "Stop the run and continue from a checkpoint before this step. Lower the learning rate, clip gradients, check the data for NaN, and logarithms or divisions for zeros; use bfloat16 instead of float16."
-- severity = "critical"
-- needs = ["weights", "biases", "gradients", "losses"]
-- lookback = "6 h"
-- [parameters.gradient_patience]
-- default = 10
-- unit = "watched steps"
-- help = "watched steps in a row with a gradient that is not finite before it counts; a loss scale skips single ones"

-- The arrays are searched whole, so each watched step counts, however many tensors there are; the tensors named are those of the
-- first such step. A logged loss that is not finite is null.
with sources as (
    select * from rule_tensors(%(run)s, %(start)s, %(stop)s, '{weights,biases,gradients}', 'infinity') where 0 < any(nonfinite)
), losses as (
    select series, step, time, nonfinite, row_number() over line as place, lead(time) over line as following
    from rule_losses(%(run)s, %(start)s, %(stop)s) window line as (partition by kind, series order by time, step)
), found as (
    select collection, tensor_set, collection as name, place, watched, step, time, following from sources
    union all
    select 'losses', series, series, place, place, step, time, following from losses where nonfinite
), collections as (
    select collection, case when collection = 'gradients' then %(gradient_patience)s else 1 end as patience,
           array_agg(tensor_set) as sets, array_agg(name) as names, array_agg(place) as places, array_agg(watched) as watched,
           array_agg(step) as steps, array_agg(time) as times, array_agg(following) as following,
           array_agg(null::float8) as values
    from found group by collection
)
select s.started_at, s.ended_at,
       jsonb_build_object('collection', c.collection) || s.evidence || coalesce(t.tensors, '{}') as evidence
from collections c
cross join lateral rule_streaks(c.patience, '', 1, c.sets, c.names, c.places, c.watched, c.steps, c.times, c.following, c.values) s
left join lateral (
    select jsonb_build_object('tensors', to_jsonb((array_agg(n.name order by n.nth))[1:5]), 'count', count(*), 'share', max(n.share)) as tensors
    from sources x cross join lateral unnest(x.names, x.nonfinite) with ordinality as n (name, share, nth)
    where x.collection = c.collection and x.time = s.started_at and n.share > 0
    having count(*) > 0) t on true
