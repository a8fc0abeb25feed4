-- name = "StragglerRank"
-- means = "One rank takes longer for its steps than the others, which wait for it."
-- advice = "Check its GPU (Throttled, a neighbour), its cores, and whether it has more data or more work, such as logging."
-- severity = "warning"
-- lookback = "10 min"
-- needs = ["steps"]
-- [parameters.threshold]
-- default = 0.2
-- unit = "ratio"
-- help = "relative excess of its median step over that of all"
-- [parameters.steps]
-- default = 10
-- unit = "steps"
-- help = "minimum number of steps per rank"

-- The ranks of a run are its processes with steps.
with ranks as (
    select pid, count(*) as n, min(started_at) as begins, max(ended_at) as ends,
           percentile_cont(0.5) within group (order by seconds) as seconds
    from rule_steps(%(run)s, %(start)s, %(stop)s) group by pid having count(*) >= %(steps)s
), middle as (
    select percentile_disc(0.5) within group (order by seconds) as seconds from ranks having count(*) > 1
)
select r.begins as started_at, r.ends as ended_at,
       jsonb_build_object('pid', r.pid, 'step_seconds', r.seconds, 'others_seconds', m.seconds,
                          'longer', r.seconds / m.seconds - 1, 'ranks', (select count(*) from ranks)) as evidence
from ranks r, middle m where r.seconds > (1 + %(threshold)s) * m.seconds
