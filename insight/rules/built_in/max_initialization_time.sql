-- name = "MaxInitializationTime"
-- means = "The run has been going on for long, and no step or epoch has begun."
-- advice = "Look at what comes before training: imports, downloads, preparing data, compiling. Do it once and keep the result; have data prepared while the first steps run."
-- severity = "warning"
-- [parameters.threshold]
-- default = "20 min"
-- help = "how long a run may take until its first step"

-- Of a run that says nothing at all of what it does, it is not known whether it makes steps.
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
