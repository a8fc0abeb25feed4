-- name = "StepOutlier"
-- means = "Some steps take much longer than the others."
-- advice = "Check what happens in these steps: checkpoints, evaluation, a slow file, garbage collection, a new neighbour. The run's dashboard shows the hardware metrics."
-- severity = "info"
-- lookback = "1 h"
-- needs = ["steps"]
-- [parameters.stddev]
-- default = 5
-- help = "standard deviations above the mean from which on a step is an outlier"
-- [parameters.n_outliers]
-- default = 10
-- unit = "steps"
-- help = "number of outliers that are tolerated"
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
