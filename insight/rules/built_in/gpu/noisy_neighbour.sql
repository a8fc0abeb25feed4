-- name = "NoisyNeighbour"
-- means = "The run's steps take longer while other runs are on its GPU or host than while it is alone."
-- advice = "Measure the slowdowns with bench interference. Move the neighbour elsewhere, or isolate the runs with MIG or MPS."
-- severity = "info"
-- needs = ["steps"]
-- [parameters.threshold]
-- default = 0.1
-- unit = "ratio"
-- help = "relative increase of the median step"
-- [parameters.steps]
-- default = 10
-- unit = "steps"
-- help = "minimum number of steps with neighbours, and without"

with presences as (
    -- A null bound is that of a running neighbour.
    select range_agg(tstzrange(since, until)) as there, jsonb_agg(run order by since) as names
    from run_neighbours(%(run)s) where since is not null
), steps as (
    select s.*, tstzrange(s.started_at, s.ended_at) && p.there as beside
    from rule_steps(%(run)s, %(start)s, %(stop)s) s cross join presences p where p.there is not null
), compared as (
    select percentile_cont(0.5) within group (order by seconds) filter (where beside) as beside,
           percentile_cont(0.5) within group (order by seconds) filter (where not beside) as alone
    from steps having least(count(*) filter (where beside), count(*) filter (where not beside)) >= %(steps)s
)
select greatest(lower(x.there), %(start)s) as started_at,
       case when upper(x.there) < %(stop)s then upper(x.there) end as ended_at,
       jsonb_build_object('beside_seconds', c.beside, 'alone_seconds', c.alone, 'longer', c.beside / c.alone - 1,
                          'neighbours', p.names) as evidence
from compared c, presences p cross join lateral unnest(p.there) as x (there)
where c.beside > (1 + %(threshold)s) * c.alone and x.there && tstzrange(%(start)s, %(stop)s)
