-- name = "OverallSystemUsage"
-- means = "Never fires: run_summary and the report have the percentiles of all used resources."
-- advice = "See bench compare, bench report, or select * from run_summary."
-- severity = "info"

select started_at, ended_at, '{}'::jsonb as evidence
from runs where run_id = %(run)s and %(start)s > %(stop)s
