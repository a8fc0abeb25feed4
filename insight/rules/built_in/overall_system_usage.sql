-- name = "OverallSystemUsage"
-- means = "It never fires: it stands for the percentiles of everything that was used, which run_summary has of each run and the report shows."
-- advice = "Look at them: bench compare, bench report, or select * from run_summary."
-- severity = "info"

select started_at, ended_at, '{}'::jsonb as evidence
from runs where run_id = %(run)s and %(start)s > %(stop)s
