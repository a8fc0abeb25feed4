-- name = "IdleInEvaluation"
-- means = "The GPUs are poorly used in evaluation, though well used in training."
-- advice = "Evaluate in larger batches and with as many data-loading workers as in training, under no_grad; move metrics to the GPU, or evaluate less often."
-- severity = "info"
-- needs = ["phases"]
-- lookback = "6 h"
-- [parameters.threshold]
-- default = 0.3
-- unit = "ratio"
-- help = "GPU utilization in evaluation below which it is low"
-- [parameters.train_threshold]
-- default = 0.6
-- unit = "ratio"
-- help = "GPU utilization outside evaluation from which on it is high"
-- [parameters.minimum_duration]
-- default = "30 s"
-- help = "total duration of evaluation that is needed"
-- [parameters.point]
-- default = "1 s"
-- help = "interval of the means"

with phases as (
    select range_agg(tstzrange(started_at, coalesce(ended_at, %(stop)s))) filter (where name ~* '^(eval|evaluate|evaluation|valid|validate|validation|test)') as evaluation,
           range_agg(tstzrange(started_at, coalesce(ended_at, %(stop)s))) filter (where name ~* '^train') as train
    from spans where run_id = %(run)s and kind = 'phase' and started_at < %(stop)s
), points as (
    select p.started_at, p.value, h.evaluation @> p.started_at and h.evaluation @> p.started_at + %(point)s as evaluation,
           h.train @> p.started_at and not h.evaluation @> p.started_at as train
    from phases h cross join lateral rule_points(%(run)s, '{gpu_utilization}', %(start)s, %(stop)s, %(point)s) p
    where h.evaluation is not null and h.train is not null
), means as (
    select avg(value) filter (where evaluation) as evaluation, avg(value) filter (where train) as train,
           min(started_at) filter (where evaluation) as begins, max(started_at) filter (where evaluation) + %(point)s as ends
    from points
), long as (
    select sum(least(upper(piece), %(stop)s) - greatest(lower(piece), %(start)s)) as duration
    from phases cross join lateral unnest(evaluation) as piece where upper(piece) > %(start)s
)
select begins as started_at, least(ends, %(stop)s) as ended_at,
       jsonb_build_object('evaluation', evaluation, 'train', train, 'seconds', extract(epoch from duration)) as evidence
from means, long
where evaluation < %(threshold)s and train >= %(train_threshold)s and duration >= %(minimum_duration)s
