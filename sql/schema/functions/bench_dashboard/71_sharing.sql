-- What sharing GPUs saved and cost: for the ledger, its plot and reports. Slowdowns over parts of runs are those of
-- `hypergauge.insight.sharing`.

-- Return the runs of the experiments of runs, with their passes: the runs of a workload on a host at the same time.
--
-- `configuration` is that of the run without its neighbours, `way` how it shares GPUs, `beside` the number of other runs in the
-- pass. `cpu` are the seconds of CPU time of the run, `delay` is that of `run_contention`, `used` the cores that other programs
-- used of `cores`, `services` those of hypergauge's services, `gpu_share` the share of time in which other processes used its
-- GPUs, `unmeasured` is that of `unmeasured_others`; `steps` and `epochs` are those that the run finished, null for none. `shown`
-- tells whether one of the pass is among these runs, `counts` whether all of it finished beside each other and beside no others,
-- `shares` whether they shared a GPU.
create or replace function bench_internal.sharing_runs(p_runs text[])
returns table (run_id text, name text, label text, nth integer, configuration text, way text, simulated boolean, seconds float8,
               cpu float8, delay float8, used float8, services float8, cores float8, gpu_share float8, unmeasured text[],
               steps float8, epochs float8, pass text, pass_seconds float8, beside bigint, shown boolean, counts boolean, shares boolean)
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
        join placements other on other.host = mine.host and other.origin = mine.origin
             and (other.gpu_uuid = mine.gpu_uuid or requested.devices = '')
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
           extract(epoch from r.ended_at - r.started_at)::float8, u.cpu, c.delay, c.other_cores + c.other_run_cores, c.service_cores, c.cores,
           c.gpu_other_share,
           case when p.counts then unmeasured_others(r.devices, c.cores, c.other_cores, c.cpu_pressure, c.gpu_other_processes,
                                                     c.gpu_other_share, c.delay) end,
           work.steps, work.epochs, pass, p.seconds, p.beside, p.shown, p.counts, p.shares
    from passed r join passes p using (pass)
    left join (select run_id, total as cpu from run_summary_of(array(select run_id from requested), '{cpu_usage}')
               where scope = 'process' and metric is null) u using (run_id)
    left join lateral (select * from run_contention where run_id = r.run_id and p.counts offset 0) c on true
    left join lateral (select nullif(count(*) filter (where kind = 'step'), 0) as steps,
                              nullif(count(*) filter (where kind = 'epoch'), 0) as epochs
                       from spans where run_id = r.run_id and kind in ('step', 'epoch') and ended_at is not null and p.counts) work on true
$$;

-- Return whether a run alone did as much work as runs beside others, whose means these are, by its steps, or else epochs: up to 2 %
-- more or less. Unknown work counts as equal. A training with a time limit does less beside others.
create or replace function bench_internal.as_much(p_steps float8, p_epochs float8, p_alone_steps float8, p_alone_epochs float8)
returns boolean language sql immutable as $$
    select coalesce(abs(p_steps - p_alone_steps) <= 0.02 * greatest(p_steps, p_alone_steps),
                    abs(p_epochs - p_alone_epochs) <= 0.02 * greatest(p_epochs, p_alone_epochs), true)
$$;

-- Return the words of lists, each once, from a text with commas between them.
create or replace function bench_internal.distinct_words(p_words text) returns text[] language sql immutable as $$
    select array(select distinct word from unnest(string_to_array(p_words, ',')) word where word <> '' order by word)
$$;

-- Return the members of the sets of runs beside each other, some of them among these runs: the runs of a configuration in all
-- repetitions, of which each pass has `copies`, with their mean duration, and the durations and labels of the same runs alone,
-- which are null where it never ran alone with as much work; `other_work` tells that it did with other work. Of repetitions,
-- those count that other programs did not disturb, if there are any. `cpu` and `alone_cpu` are means of CPU seconds; `delay` and
-- `alone_delay` the shares of their time that other programs may have cost, `used` the cores that these used at most of `cores`,
-- `services` those of hypergauge's services, `gpu_share` the largest share of time in which other processes used the GPUs;
-- `unmeasured` is where others were not measured beside one of the runs. `members` names the set, `together` has the seconds of
-- its repetitions.
create or replace function bench_internal.sharing_members(p_runs text[])
returns table (members text, shares boolean, together float8[], runs text[], name text, label text, nth integer, way text,
               simulated boolean, copies bigint, seconds float8, alone float8[], alone_labels text[], cpu float8, alone_cpu float8,
               delay float8, alone_delay float8, used float8, services float8, cores float8, gpu_share float8, unmeasured text[],
               other_work boolean)
language sql stable as $$
    with counted as materialized (
        select *, coalesce(max(delay) over (partition by pass) > delay_limit(), false) as disturbed
        from sharing_runs(p_runs) where counts
    ), alone as materialized (
        select * from (select *, bool_and(disturbed) over (partition by configuration, way) as never_quiet
                       from counted where beside = 0 and seconds > 0) x
        where not disturbed or never_quiet
    ), all_passes as materialized (
        select pass, string_agg(configuration || way, ' ' order by configuration, way) as members, bool_or(shares) as shares,
               bool_or(shown) as shown, min(pass_seconds) as seconds, bool_or(disturbed) as disturbed
        from counted where beside > 0 group by pass
    ), passes as materialized (
        select pass, members, shares, any_shown as shown, seconds
        from (select *, bool_and(disturbed) over (partition by members) as never_quiet, bool_or(shown) over (partition by members) as any_shown
              from all_passes) x
        where not disturbed or never_quiet
    ), sets as (
        select members, bool_or(shares) as shares, count(*) as repetitions, array_agg(seconds) as together
        from passes group by members having bool_or(shown)
    )
    select s.members, s.shares, s.together, m.runs, m.name, m.label, m.nth, m.way, m.simulated, cardinality(m.runs) / s.repetitions,
           m.seconds, a.seconds, a.labels, m.cpu, a.cpu, m.delay,
           -- A run beside others cannot be faster than alone, unless something slowed it down alone.
           greatest(a.delay, 1 - m.seconds / (select avg(s) from unnest(a.seconds) s)), greatest(m.used, a.used), greatest(m.services, a.services),
           greatest(m.cores, a.cores), greatest(m.gpu_share, a.gpu_share), distinct_words(concat_ws(',', array_to_string(m.unmeasured, ','), array_to_string(a.unmeasured, ','))),
           a.seconds is null and exists (select from alone o where o.configuration = m.configuration and o.way in ('-', m.way))
    from sets s
    cross join lateral (
        select c.configuration, c.way, array_agg(c.run_id) as runs, min(c.name) as name, min(c.label) as label, min(c.nth) as nth,
               bool_or(c.simulated) as simulated, avg(c.seconds) as seconds, mean_of_all(array_agg(c.cpu)) as cpu,
               avg(c.delay) as delay, max(c.used) as used, max(c.services) as services, max(c.cores) as cores, max(c.gpu_share) as gpu_share,
               distinct_words(string_agg(array_to_string(c.unmeasured, ','), ',')) as unmeasured,
               mean_of_all(array_agg(c.steps)) as steps, mean_of_all(array_agg(c.epochs)) as epochs
        from passes p join counted c using (pass) where p.members = s.members group by c.configuration, c.way) m
    left join lateral (
        select array_agg(a.seconds) as seconds, array_agg(a.label order by a.nth, a.label) as labels, mean_of_all(array_agg(a.cpu)) as cpu,
               avg(a.delay) as delay, max(a.used) as used, max(a.services) as services, max(a.cores) as cores, max(a.gpu_share) as gpu_share,
               distinct_words(string_agg(array_to_string(a.unmeasured, ','), ',')) as unmeasured
        from alone a where a.configuration = m.configuration and a.way in ('-', m.way) and as_much(m.steps, m.epochs, a.steps, a.epochs)
        group by a.way order by a.way <> '-' limit 1) a on true
$$;

-- Return what the runs beside them cost these runs, on the mean of all repetitions: `ratio` is the time beside them relative to the
-- time alone, `lost` the share of the run's time that a slowdown took, and `alone` has the labels of the runs alone. Runs that never
-- ran alone are missing. `cpu_ratio` is that of CPU times: it grows with contention for caches and memory, but not with waiting for a
-- core. Where other programs may have cost much of the time, `lost` is 0; `doubt` is that of `unmeasured_text`.
create or replace function bench_dashboard.run_costs(p_runs text[])
returns table (run_id text, ratio float8, lost float8, alone text[], cpu_ratio float8, disturbed boolean, doubt text)
language sql stable as $$
    select one, x.ratio, case when d.disturbed then 0 else greatest(0, 1 - 1 / nullif(x.ratio, 0)) end,
           m.alone_labels, m.cpu / nullif(m.alone_cpu, 0), d.disturbed, unmeasured_text(m.unmeasured)
    from sharing_members(p_runs) m
    cross join lateral (select m.seconds / avg(s) as ratio from unnest(m.alone) s) x
    cross join lateral (select coalesce(greatest(m.delay, m.alone_delay) > delay_limit(), false) as disturbed) d
    cross join unnest(m.runs) one
    where x.ratio is not null and one = any(p_runs)
$$;

-- Return the verdict on a set of runs beside each other: `collocate`, `apart`, `even`, `unsure` or `disturbed`; null without a ratio.
--
-- `p_ratio` is the makespan relative to the runs one after the other, with its interval where there are repetitions: all of it
-- decides. Changes below 2 % count as none. `p_alone` and `p_beside` are the shares of their time that other programs may have cost the
-- runs alone and beside each other. Beyond `delay_limit`, nothing is decided. Below it the verdict must hold for the least time of the
-- runs that they may have slowed down.
create or replace function bench_internal.sharing_verdict(p_ratio float8, p_low float8, p_high float8, p_alone float8, p_beside float8)
returns text language sql immutable as $$
    select case when p_ratio is null then null
                when greatest(p_alone, p_beside) > delay_limit() then 'disturbed'
                when low >= 0.98 and high <= 1.02 then 'even'
                when high < 1 then case when high < 1 - coalesce(greatest(p_alone, 0), 0) then 'collocate' else 'disturbed' end
                when low > 1 then case when low * (1 - coalesce(greatest(p_beside, 0), 0)) > 1 then 'apart' else 'disturbed' end
                else 'unsure' end
    from (select coalesce(p_low, p_ratio) as low, coalesce(p_high, p_ratio) as high) x
$$;

-- Return the cause of the verdict `disturbed` as a clause. Less than a tenth of the cores explains nothing.
create or replace function bench_internal.disturbance_text(p_used float8, p_services float8, p_cores float8, p_gpu_share float8,
                                                           p_unmeasured text[])
returns text language sql immutable as $$
    select case when gpus_disturbed(p_gpu_share) then 'other processes used its GPUs'
                when coalesce(p_used, 0) + busy_services(p_services) >= 0.1 * p_cores
                then notice_used(p_used::numeric, p_services::numeric, p_cores::numeric)
                when p_unmeasured <> '{}' then unmeasured_text(p_unmeasured) || ', and something may have slowed its runs'
                else 'something slowed its runs alone' end
$$;

-- Return the sets of runs that shared GPUs, some of them among these runs: seconds beside each other, and the mean of one after
-- the other, which is null where some never ran alone with as much work; `missing` is a clause with these. `ratio` is that of
-- both with its 95 % interval, `slower` tells how much longer runs took than alone. `verdict` is that of `sharing_verdict`,
-- `used` are the cores that other programs used at most of `cores`, `services` those of hypergauge's services, `gpu_share` the
-- largest share of time in which other processes used GPUs; `unmeasured` is where others were not measured.
create or replace function bench_internal.sharing_sets(p_runs text[])
returns table (names text[], ways text, simulated boolean, repetitions bigint, together float8[], mean float8, ratio float8, low float8,
               high float8, slower text[], missing text, verdict text, used float8, services float8, cores float8,
               gpu_share float8, unmeasured text[]) language sql stable as $$
    with titled as materialized (
        select *, case when count(*) over (partition by members, m.name) > 1 then concat_ws(' ', m.name, label) else m.name end as title
        from sharing_members(p_runs) m
        cross join lateral (select avg(s) as mean, var_samp(s) as variance, count(s) as n from unnest(alone) s) a
        where shares
    ), sets as (
        select members, together, string_agg(distinct nullif(way, '-'), '+') as ways, bool_or(simulated) as simulated,
               (select array_agg(title order by nth, again) from titled x cross join generate_series(1, x.copies) again
                where x.members = t.members) as names,
               case when count(mean) = count(*) then sum(copies * mean) end as mean,
               array_agg(copies * mean order by nth, label) as means, array_agg(copies ^ 2 * variance order by nth, label) as variances,
               array_agg(n order by nth, label) as counts,
               array_agg(format('%s %s%%', title, round(100 * (seconds / mean - 1))) order by nth) filter (where seconds > 1.02 * mean)
                   as slower,
               some_of(array_agg(title order by nth) filter (where mean is null))
                   || case when bool_and(other_work) filter (where mean is null) then ' did other work alone there' else ' never ran alone there' end as missing,
               max(delay) as delay, max(alone_delay) as alone_delay, max(used) as used, max(services) as services, max(cores) as cores,
               max(gpu_share) as gpu_share, distinct_words(string_agg(array_to_string(unmeasured, ','), ',')) as unmeasured
        from titled t group by members, together
    )
    select names, ways, simulated, cardinality(together), together, mean, r.value, r.low, r.high, slower, missing,
           sharing_verdict(r.value, r.low, r.high, alone_delay, delay), used, services, cores, gpu_share, unmeasured
    from sets
    cross join lateral (select avg(s) as seconds, var_samp(s) as variance, count(s) as n from unnest(together) s) b
    cross join lateral ratio(b.seconds, b.variance, b.n, case when mean is not null then means end, variances, counts) r
$$;

-- Return in a sentence what sharing GPUs saved and cost: of the set that saved most, and of how many it is one. Where runs alone are
-- missing, it tells which. Null where no runs shared.
-- Sets that other programs disturbed come last.
create or replace function bench_dashboard.sharing_sentence(p_runs text[]) returns text language sql stable as $$
    with sets as materialized (
        select *, case when cardinality(names) = 2 then 'pairing ' || array_to_string(names, ' and ')
                    else 'sharing a GPU among ' || some_of(names) end || coalesce(' by ' || ways, '') as act
        from sharing_sets(p_runs)
    ), best as (
        select case when simulated then 'On simulated GPUs, ' || act else upper(left(act, 1)) || substr(act, 2) end
               || case verdict when 'even' then ' took as long as one after the other'
                               when 'disturbed' then ' is undecided: ' || disturbance_text(used, services, cores, gpu_share, unmeasured)
                               when 'collocate' then format(' saved %s%% of the time', round(100 * (1 - ratio)))
                               when 'apart' then format(' took %s%% longer than one after the other', round(100 * (ratio - 1)))
                               else ' differs too much between repetitions to tell whether it saved time' end
               || case when verdict <> 'disturbed' then concat('; longer than alone: ' || some_of(slower), '; ' || unmeasured_text(unmeasured))
                       else '' end
               || case when repetitions = 1 then ' (measured once).' else format(' (%s repetitions).', repetitions) end as sentence
        from sets where ratio is not null order by verdict = 'disturbed', ratio limit 1
    ), counted as (
        select count(*) as n, count(*) filter (where verdict = 'collocate') as saved, count(*) filter (where ratio is null) as unknown,
               (array_agg(act || ': ' || missing) filter (where ratio is null))[1] as example
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
