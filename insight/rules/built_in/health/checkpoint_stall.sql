-- name = "CheckpointStall"
-- means = "Checkpoints take a large part of the training's time."
-- advice = "Write checkpoints less often, asynchronously, to a faster disk, or only what is needed to continue."
-- severity = "warning"
-- needs = ["phases"]
-- lookback = "6 h"
-- [parameters.threshold]
-- default = 0.1
-- unit = "ratio"
-- help = "share of the time from the first step to the end of the last checkpoint, above which it is large"
-- [parameters.checkpoints]
-- default = 2
-- unit = "checkpoints"
-- help = "checkpoints that are needed"
-- [parameters.minimum_duration]
-- default = "10 s"
-- help = "total duration of checkpoints from which on they matter"

with training as (
    select greatest(min(started_at), %(start)s) as begins from spans where run_id = %(run)s and kind in ('step', 'epoch')
), checkpoints as (
    -- Ranks write at the same time.
    select unnest(range_agg(tstzrange(greatest(s.started_at, t.begins), coalesce(s.ended_at, %(stop)s)))) as piece
    from spans s cross join training t
    where s.run_id = %(run)s and s.kind = 'phase' and s.name ~* '^checkpoint' and s.started_at < %(stop)s
      and coalesce(s.ended_at, %(stop)s) > t.begins
), total as (
    select min(lower(piece)) as first, max(upper(piece)) as last, count(*) as n, sum(upper(piece) - lower(piece)) as took from checkpoints
)
select first as started_at, last as ended_at,
       jsonb_build_object('share', s.share, 'seconds', extract(epoch from took), 'checkpoints', n) as evidence
from total cross join training t
cross join lateral (select extract(epoch from took)::float8 / nullif(extract(epoch from last - t.begins)::float8, 0) as share) s
where s.share > %(threshold)s and n >= %(checkpoints)s and took >= %(minimum_duration)s
