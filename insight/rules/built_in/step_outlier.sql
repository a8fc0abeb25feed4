-- name = "StepOutlier"
-- means = "Some steps take much longer than the others."
-- advice = "Look at what happens in them: checkpoints, evaluation, a slow file, garbage collection, a neighbour that began. The run's dashboard shows what the hardware did."
-- severity = "info"
-- lookback = "1 h"
-- [parameters.stddev]
-- default = 5
-- help = "how many standard deviations above the mean a step is an outlier"
-- [parameters.n_outliers]
-- default = 10
-- unit = "steps"
-- help = "so many outliers are passed over"
-- [presets.smdebug]
-- stddev = 3

with steps as (
    select *, avg(seconds) over () as mean, stddev_samp(seconds) over () as deviation
    from rule_steps(%(run)s, %(start)s, %(stop)s)
)
select min(started_at) as started_at, max(ended_at) as ended_at,
       jsonb_build_object('outliers', count(*), 'mean_seconds', min(mean), 'stddev_seconds', min(deviation),
                          'longest_seconds', max(seconds),
                          'longest_step', (array_agg(step order by seconds desc))[1]) as evidence
from steps where seconds > mean + %(stddev)s * deviation
having count(*) > %(n_outliers)s
