-- name = "DataBoundStep"
-- means = "Steps wait for data for a large part of their time."
-- advice = "Load data in more workers, prefetch, preprocess once, or keep the data on a faster disk; see Dataloader and IOBottleneck. The GPUs idle meanwhile."
-- severity = "warning"
-- needs = ["steps"]
-- lookback = "1 h"
-- [parameters.threshold]
-- default = 0.3
-- unit = "ratio"
-- help = "share of the time from the end of a step to that of the next, above which steps are bound by data"
-- [parameters.steps]
-- default = 10
-- unit = "steps"
-- help = "steps that a window needs"
-- [parameters.minimum_duration]
-- default = "1 min"
-- help = "minimum duration of the condition"
-- [parameters.short_threshold]
-- default = 0.5
-- unit = "ratio"
-- help = "the same share in a training of less than two minimum durations, as a whole"
-- [parameters.short_wait]
-- default = "5 s"
-- help = "total wait of such a training, from which on it counts; while it runs, its steps must extend over four times as much"
-- [parameters.window]
-- default = "30 s"
-- help = "length of a window"

-- The first step of a process does not count: it starts the workers. Nor does a wait that was not measured.
with steps as (
    select ended_at, data_wait, extract(epoch from ended_at - lag(ended_at) over (partition by pid order by ended_at))::float8 as seconds
    from spans
    where run_id = %(run)s and kind = 'step' and ended_at is not null and started_at >= %(start)s and started_at < %(stop)s
), windows as (
    select date_bin(%(window)s, ended_at, (select started_at from runs where run_id = %(run)s)) as begins, count(*) as steps,
           sum(least(coalesce(data_wait, 0), seconds)) as waited, sum(seconds) as seconds, count(data_wait) as measured
    from steps where seconds is not null group by begins
), wide as (
    -- Steps longer than a window: each window with its neighbours.
    select begins, steps, waited, seconds, measured, sum(steps) over line as around, sum(waited) over line / nullif(sum(seconds) over line, 0) as share
    from windows window line as (order by begins rows between %(steps)s::bigint / 2 preceding and %(steps)s::bigint / 2 following)
), evaluated as (
    select array_agg(begins) as times,
           array_agg(case when steps >= %(steps)s then waited > %(threshold)s * seconds
                          else around >= %(steps)s and share > %(threshold)s and waited > %(threshold)s * seconds end) as bound
    from wide where exists (select from windows where measured > 0)
)
select min(w.begins) as started_at, null::timestamptz as ended_at,
       jsonb_build_object('share', sum(waited) / sum(seconds), 'waited_seconds', sum(waited), 'steps', sum(steps)) as evidence
from windows w
where (select min(started_at) from spans where run_id = %(run)s and kind = 'step') >= %(start)s
having sum(seconds) < 2 * extract(epoch from %(minimum_duration)s::interval) and sum(steps) >= 2 * %(steps)s
   and sum(waited) > %(short_threshold)s * sum(seconds) and sum(waited) >= extract(epoch from %(short_wait)s::interval)
   and (sum(seconds) >= 4 * extract(epoch from %(short_wait)s::interval)
        or exists (select from runs where run_id = %(run)s and ended_at <= %(stop)s))
union all
select s.started_at, s.ended_at,
       jsonb_build_object('share', sum(w.waited) / nullif(sum(w.seconds), 0), 'waited_seconds', sum(w.waited), 'steps', sum(w.steps)) as evidence
from evaluated
cross join lateral rule_intervals(times, bound, %(minimum_duration)s, %(stop)s, %(window)s) s
join windows w on w.begins >= s.started_at and w.begins < s.until
group by s.started_at, s.ended_at
