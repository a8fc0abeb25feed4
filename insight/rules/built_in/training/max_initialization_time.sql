-- name = "MaxInitializationTime"
-- means = "No step or epoch has begun long after the start of the run."
-- advice = "Check what precedes training: imports, downloads, preprocessing, compilation. Do it once and cache the result; preprocess during the first steps."
-- severity = "warning"
-- [parameters.threshold]
-- default = "20 min"
-- help = "maximum time from the start of the run to its first step"

-- A run without spans and software metrics may have no steps, so it does not count.
with first as (
    select r.started_at, least((select min(started_at) from spans where run_id = r.run_id and kind in ('step', 'epoch')),
                               (select min(time) from software_metrics where run_id = r.run_id)) as step
    from runs r where r.run_id = %(run)s and (exists (select from spans where run_id = r.run_id)
                                              or exists (select from software_metrics where run_id = r.run_id))
), waited as (
    select started_at, step as ended_at, coalesce(step, %(stop)s) as until from first
)
select started_at, ended_at, jsonb_build_object('seconds', extract(epoch from until - started_at)) as evidence
from waited where until - started_at > %(threshold)s and until >= %(start)s
