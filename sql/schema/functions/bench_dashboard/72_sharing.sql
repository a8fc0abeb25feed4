-- What sharing GPUs saved and cost, for the ledger: `hypergauge.insight.ledger.costs` in SQL, without slowdowns over parts of runs.

-- Return the runs of the experiments of runs, with their passes: the runs of a workload on a host at the same time.
--
-- `configuration` is that of the run without its neighbours, `way` how it shares GPUs, `beside` the number of other runs in the pass.
-- `shown` tells whether one of the pass is among these runs, `counts` whether all of it finished beside each other and beside no others,
-- `shares` whether they shared a GPU.
create or replace function bench_internal.sharing_runs(p_runs text[])
returns table (run_id text, name text, label text, nth integer, configuration text, way text, simulated boolean, seconds float8,
               pass text, pass_seconds float8, beside bigint, shown boolean, counts boolean, shares boolean)
language sql stable as $$
    with requested as materialized (
        select r.run_id, r.workload_id, r.name, run_label(w, r) as label, r.position, r.status, r.host, r.devices,
               coalesce(nullif(r.collocation, ''), '-') as way, on_simulated_gpus(r) as simulated, r.started_at, r.ended_at,
               jsonb_build_array(r.command, r.params, r.environment, r.host, r.devices, on_simulated_gpus(r), r.profilers)::text
                   as configuration
        from runs r join workloads w using (workload_id)
        where r.started_at is not null
          and w.experiment_id in (select w.experiment_id from runs r join workloads w using (workload_id) where r.run_id = any(p_runs))
    ), crowded as materialized (
        select mine.run_id
        from requested join placements mine using (run_id)
        join placements other on other.host = mine.host and other.origin = mine.origin and other.gpu_uuid = mine.gpu_uuid
             and other.started_at < coalesce(mine.ended_at, now()) and coalesce(other.ended_at, 'infinity') > mine.started_at
        join runs o on o.run_id = other.run_id and o.workload_id <> requested.workload_id
        union
        select requested.run_id from requested join run_sets s using (run_id) join places p using (place_id)
        where s.others > 0 and (p.kind = 'gpu' or requested.devices = '')
    ), passed as (
        select a.*, concat_ws(' ', a.workload_id, p.pass, a.host) as pass
        from requested a join passes(array(select run_id from requested)) p using (run_id)
    ), passes as (
        select pass, count(*) - 1 as beside, bool_or(run_id = any(p_runs)) as shown,
               extract(epoch from max(ended_at) - min(started_at))::float8 as seconds,
               bool_and(status = 'finished') and not bool_or(run_id in (select run_id from crowded))
                   and min(ended_at) > max(started_at) as counts,
               bool_or(way <> '-') or (select count(*) > count(distinct one)
                                       from unnest(string_to_array(string_agg(nullif(devices, ''), '+'), '+')) one) as shares
        from passed group by pass
    )
    select r.run_id, coalesce(nullif(r.name, ''), r.label), r.label, r.position, r.configuration, r.way, r.simulated,
           extract(epoch from r.ended_at - r.started_at)::float8, pass, p.seconds, p.beside, p.shown, p.counts, p.shares
    from passed r join passes p using (pass)
$$;

-- Return the sets of runs that shared GPUs, some of them among these runs: seconds beside each other, and one after the other as the
-- mean, shortest and longest of the runs alone. These are null where some never ran alone, which `missing` names. `slower` tells how
-- much longer runs took than alone.
create or replace function bench_internal.sharing_sets(p_runs text[])
returns table (names text[], ways text, simulated boolean, repetitions bigint, together float8[], mean float8, shortest float8,
               longest float8, slower text[], missing text[]) language sql stable as $$
    with members as materialized (
        select * from sharing_runs(p_runs) where counts
    ), alone as materialized (
        select configuration, way, avg(seconds) as mean, min(seconds) as shortest, max(seconds) as longest
        from members where beside = 0 group by configuration, way
    ), passes as materialized (
        select pass, string_agg(configuration || way, ' ' order by configuration, way) as members, min(pass_seconds) as seconds
        from members where beside > 0 and shares group by pass
    ), sets as (
        select members, count(*) as repetitions, array_agg(seconds) as together
        from passes where members in (select p.members from passes p join members m using (pass) where m.shown)
        group by members
    ), parts as (
        select s.members, m.configuration, m.way, min(m.name) as name, min(m.label) as label, bool_or(m.simulated) as simulated,
               min(m.nth) as nth, count(*) / s.repetitions as copies, avg(m.seconds) as seconds, a.mean, a.shortest, a.longest
        from sets s join passes p using (members) join members m using (pass)
        left join lateral (select * from alone a where a.configuration = m.configuration and a.way in ('-', m.way)
                           order by a.way <> '-' limit 1) a on true
        group by s.members, m.configuration, m.way, s.repetitions, a.mean, a.shortest, a.longest
    ), titled as (
        select *, case when count(*) over (partition by members, name) > 1 then concat_ws(' ', name, label) else name end as title
        from parts
    )
    select (select array_agg(title order by nth, again) from titled x cross join generate_series(1, copies) again
            where x.members = s.members),
           string_agg(distinct nullif(way, '-'), '+'), bool_or(simulated), s.repetitions, s.together,
           case when count(mean) = count(*) then sum(copies * mean) end, case when count(mean) = count(*) then sum(copies * shortest) end,
           case when count(mean) = count(*) then sum(copies * longest) end,
           array_agg(format('%s %s%%', title, round(100 * (seconds / mean - 1))) order by nth) filter (where seconds > 1.02 * mean),
           array_agg(title order by nth) filter (where mean is null)
    from sets s join titled using (members) group by s.members, s.repetitions, s.together
$$;

-- Return in a sentence what sharing GPUs saved and cost: of the set that saved most, and of how many it is one. Where runs alone are
-- missing, it tells which. Null where no runs shared.
--
-- Repetitions decide only if each of them is on one side of all runs alone. Changes below 2 % count as none.
create or replace function bench_dashboard.sharing_sentence(p_runs text[]) returns text language sql stable as $$
    with sets as materialized (
        select *, x.average / mean as ratio,
               case when abs(x.average / mean - 1) < 0.02 then 'even' when x.high < shortest then 'saved' when x.low > longest then 'lost'
                    when mean is not null then 'unsure' end as verdict,
               case when cardinality(names) = 2 then 'pairing ' || array_to_string(names, ' and ')
                    else 'sharing a GPU among ' || some_of(names) end || coalesce(' by ' || ways, '') as act
        from sharing_sets(p_runs)
        cross join lateral (select avg(one) as average, min(one) as low, max(one) as high from unnest(together) one) x
    ), best as (
        select case when simulated then 'On simulated GPUs, ' || act else upper(left(act, 1)) || substr(act, 2) end
               || case verdict when 'even' then ' took as long as one after the other'
                               when 'saved' then format(' saved %s%% of the time', round(100 * (1 - ratio)))
                               when 'lost' then format(' took %s%% longer than one after the other', round(100 * (ratio - 1)))
                               else ' differs too much between repetitions to tell whether it saved time' end
               || coalesce('; longer than alone: ' || some_of(slower), '')
               || case when repetitions = 1 then ' (measured once).' else format(' (%s repetitions).', repetitions) end as sentence
        from sets where mean is not null order by ratio limit 1
    ), counted as (
        select count(*) as n, count(*) filter (where verdict = 'saved') as saved, count(*) filter (where mean is null) as unknown,
               (array_agg(format('%s: %s never ran alone there', act, some_of(missing))) filter (where mean is null))[1] as example
        from sets
    )
    select nullif(concat_ws(' ', (select sentence from best),
                     case when n - unknown > 1 then format('Of %s sets, %s saved time.', n - unknown, saved) end,
                     case when unknown > 0 then format('What sharing saved is unknown for %s.',
                          case unknown when 1 then example else format('%s sets, such as %s', unknown, example) end) end,
                     case when n = 0 and exists (select from sharing_runs(p_runs) where beside > 0 and shown and shares)
                          then 'What sharing saved is unknown: runs beside each other did not all finish, or had others on their GPU.' end), '')
    from counted
$$;
