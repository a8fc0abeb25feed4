-- name = "UnchangedTensor"
-- means = "A weight with a gradient does not change, while others do: the optimizer leaves it out."
-- advice = "Give all parameters to the optimizer, also those that were added or replaced later. Freeze a weight on purpose by requires_grad_(False). In bfloat16, small updates are rounded away: keep the weights in float32."
-- severity = "warning"
-- needs = ["weights"]
-- lookback = "6 h"
-- [parameters.num_steps]
-- default = 3
-- unit = "watched steps"
-- help = "steps across which the weight has not changed"
-- [parameters.patience]
-- default = 10
-- unit = "watched steps"
-- help = "further watched steps in a row for which this holds before it counts"

-- Unchanged is a weight whose reductions all stay the same to the last bit. A step that changes no weight at all was skipped by a
-- loss scale, or accumulates gradients, so it does not count; neither does a gradient of zero (see AllZero).
with sets as (
    select *, lag(names) over line = names as same, lag(l2) over line as before_l2, lag(l1) over line as before_l1,
           lag(mean) over line as before_mean, lag(std) over line as before_std, lag(low) over line as before_low,
           lag(high) over line as before_high, lag(l2) over line is distinct from l2 as changed
    from rule_tensors(%(run)s, %(start)s, %(stop)s, '{weights}')
    window line as (partition by tensor_set order by place)
), trained as (
    -- The gradient is there and not zero at most watched steps.
    select t.name from rule_tensors(%(run)s, %(start)s, %(stop)s, '{gradients}', 100000) x
    cross join lateral unnest(x.names, x.l2) as t (name, l2)
    group by t.name having count(*) filter (where t.l2 > 0) > count(*) / 2.0
), steps as (
    -- Steps that changed nothing are left out, so those around them are next to each other.
    select *, row_number() over (partition by tensor_set order by place) as nth from sets where changed and same
), found as (
    select x.tensor_set, t.name, x.nth as place, x.nth as watched, x.step, x.time,
           x.following, t.l2::float8 as value
    from (select * from steps where exists (select from unnest(l2, before_l2) as t (l2, l2b) where t.l2 = t.l2b)) x
    cross join lateral unnest(x.names, x.l2, x.before_l2, x.l1, x.before_l1, x.mean, x.before_mean, x.std, x.before_std,
                              x.low, x.before_low, x.high, x.before_high, x.update_ratio)
        as t (name, l2, l2b, l1, l1b, mean, meanb, std, stdb, low, lowb, high, highb, ratio)
    where t.l2 = t.l2b and coalesce(t.ratio, 0) = 0 and t.l1 is not distinct from t.l1b and t.mean is not distinct from t.meanb
      and t.std is not distinct from t.stdb and t.low is not distinct from t.lowb and t.high is not distinct from t.highb
      and t.name in (select name from trained)
)
select s.started_at, s.ended_at, s.evidence
from (select array_agg(tensor_set) as sets, array_agg(name) as names, array_agg(place) as places, array_agg(watched) as watched,
             array_agg(step) as steps, array_agg(time) as times, array_agg(following) as following,
             array_agg(value) as values from found) f
cross join lateral rule_streaks(%(num_steps)s - 1 + %(patience)s, 'norm', 1, f.sets, f.names, f.places, f.watched, f.steps, f.times,
                                f.following, f.values) s
