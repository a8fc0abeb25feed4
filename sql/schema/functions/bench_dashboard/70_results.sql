-- Results of runs and workloads: means over repetitions, and changes against a baseline.

-- Return the software metrics of runs by relevance: loss and accuracy first, those of MLflow's autologging and of the system last.
create or replace function bench_dashboard.result_keys(p_runs text[]) returns table (key text) language sql stable as $$
    select key from software_keys(p_runs)
    order by key ~ '^(training_|system/)',
             case when key ~* 'loss' then 0 when better_direction(key) is not null then 1 else 2 end, key
$$;

-- Return the work of runs. Results are comparable within one work, which attempts, devices, neighbours and parameters may vary. The
-- work is the name of the run, by default that of its file or model. Rows of one program whose names all differ in their experiment do
-- one work: the whole experiment decides, whichever of its runs are chosen. With a chosen experiment that repeats some of these names,
-- names tell the works of both. Software metrics, such as a loss, are comparable within one `program`.
create or replace function bench_dashboard.run_works(p_runs text[]) returns table (run_id text, work text, program text)
language sql stable as $$
    with named as (
        select r.run_id, w.experiment_id, r.workload_id, r.position, coalesce(nullif(r.name, ''), program) as name, program
        -- The words before the first option; after `-m` stands a module.
        from runs r join workloads w using (workload_id)
        cross join lateral (select substring(replace(r.command, ' -m ', ' ') from '^.*?(?= -|$)') as program) p
        where w.experiment_id = any(array(select o.experiment_id from runs join workloads o using (workload_id) where run_id = any(p_runs)))
    ), counted as (
        select experiment_id, program, array_agg(distinct name) as names,
               count(distinct name) > 1 and count(distinct name) = count(distinct (workload_id, position)) as variants
        from named group by experiment_id, program
    )
    select run_id, case when variants and not repeated then program else name end, program
    from named join counted c using (experiment_id, program)
    cross join lateral (select exists (select from counted o where o.program = c.program and not o.variants and o.names && c.names)
                               as repeated) r
    where run_id = any(p_runs)
$$;

-- Return the mean of values; null without any, and where one of them is null.
create or replace function bench_internal.mean_of_all(p_values float8[]) returns float8 language sql immutable as $$
    select avg(x) from unnest(p_values) x having count(x) = count(*)
$$;

-- Return the results of rows: the means over the finished attempts among these runs, with changes against the row of the run
-- `p_baseline`; over all attempts and without changes where none has finished.
--
-- `n` counts the finished attempts, `failed` those that ended early. Energy is that above idle, an equal part of it (see
-- `energy_divided`), or that of whole GPUs with idle. These are not comparable: `energy_of` names them. `shared` marks that GPU
-- values may be those of other runs too, `sm_mark` and `utilization_mark` that these are, see `shared_mark`. `last` is the last
-- value of the software metric `p_key`. `repeated` has the values behind the means `seconds`, `energy` and `last`. A mean needs a
-- value of each attempt that counts: those that have one, such as a loss that is no NaN, are no sample of all. Changes against a
-- baseline of other work are marked, see `change_of_work`.
create or replace function bench_dashboard.run_results(p_runs text[], p_baseline text default null, p_key text default null)
returns table (nth bigint, run_id text, title text, color text, stroke text, status text, started_at timestamptz,
               ended_at timestamptz, n bigint, failed bigint, seconds float8, seconds_change text, sm_active float8,
               utilization float8, cpu float8, energy float8, energy_of text, energy_change text, last float8, last_change text,
               shared boolean, repeated jsonb, sm_mark text, utilization_mark text) language sql stable as $$
    with requested as materialized (
        select r.run_id, r.workload_id, r.position, r.attempt, r.status, ended_early(r.status) as early,
               extract(epoch from coalesce(r.ended_at, now()) - r.started_at)::float8 as seconds,
               r.status = 'finished'
               or not bool_or(r.status = 'finished') over (partition by r.workload_id, r.position) as counts
        from runs r where r.run_id = any(p_runs) and r.started_at is not null
    ), measured as materialized (
        select run_id, max(mean) filter (where quantity = 'gpu_sm_active') as sm_active,
               max(mean) filter (where quantity = 'gpu_utilization') as utilization,
               max(shared_mark(scope)) filter (where quantity = 'gpu_sm_active') as sm_mark,
               max(shared_mark(scope)) filter (where quantity = 'gpu_utilization') as utilization_mark,
               max(mean) filter (where quantity = 'cpu_usage' and scope = 'process') as cpu,
               max(total) filter (where quantity = 'gpu_energy_attributed') as share,
               max(total) filter (where quantity = 'gpu_power' and scope = 'instance') as whole
        from run_values(p_runs, '{gpu_sm_active,gpu_utilization,cpu_usage,gpu_energy_attributed,gpu_power}') group by run_id
    ), divided as materialized (
        select energy_divided(p_runs) as run_id
    ), rows as (
        select workload_id, position, (array_agg(a.run_id order by attempt desc))[1] as run_id,
               (array_agg(a.status order by attempt desc))[1] as status, count(*) filter (where a.status = 'finished') as n,
               count(*) filter (where early) as failed, array_agg(seconds) filter (where counts) as seconds,
               mean_of_all(array_agg(sm_active) filter (where counts)) as sm_active,
               mean_of_all(array_agg(utilization) filter (where counts)) as utilization,
               max(sm_mark) filter (where counts) as sm_mark, max(utilization_mark) filter (where counts) as utilization_mark,
               mean_of_all(array_agg(cpu) filter (where counts)) as cpu, array_agg(l.value) filter (where counts) as last,
               array_agg(share) filter (where counts) as shares, array_agg(whole) filter (where counts) as wholes,
               bool_and(share is not null) filter (where counts) as attributed,
               coalesce(bool_or(a.run_id in (select run_id from divided)) filter (where counts), false) as is_divided,
               bool_and(whole is not null) filter (where counts) as alone
        from requested a left join measured using (run_id) left join last_values(p_runs, array[p_key]) l using (run_id)
        group by workload_id, position
    ), known as (
        select *, case when attributed then shares when alone then wholes end as energy,
               case when attributed and is_divided then 'divided evenly' when attributed then 'above idle'
                    when alone then 'whole GPUs' end as energy_of
        from rows
    ), base as (
        select k.* from known k join runs b on (b.workload_id, b.position) = (k.workload_id, k.position)
        where b.run_id = p_baseline and k.n > 0
    )
    select t.nth, k.run_id, t.title, t.color, t.stroke, k.status, r.started_at, r.ended_at, k.n, k.failed,
           mean_of_all(k.seconds), case when other then change_of_work(same, k.seconds, b.seconds) end,
           k.sm_active, k.utilization, k.cpu, mean_of_all(k.energy), k.energy_of,
           case when other and k.energy_of = b.energy_of then change_of_work(same, k.energy, b.energy) end,
           mean_of_all(k.last),
           case when other then change_of_work(mine.program is not distinct from its.program, k.last, b.last) end,
           coalesce(f.shared, false), jsonb_build_object('seconds', k.seconds, 'energy', k.energy, 'last', k.last),
           k.sm_mark, k.utilization_mark
    from known k join runs r using (run_id) join titled_runs(p_runs) t using (run_id)
    left join run_flags f on f.run_id = k.run_id left join base b on true
    left join run_works(p_runs) mine on mine.run_id = k.run_id left join run_works(p_runs) its on its.run_id = b.run_id
    cross join lateral (select k.n > 0 and k.run_id <> b.run_id as other, mine.work is not distinct from its.work as same) o
    order by t.nth
$$;

-- Return the work of workloads: that of their runs together, see `run_works`.
create or replace function bench_internal.workload_works(p_workloads integer[])
returns table (workload_id integer, work text) language sql stable as $$
    select workload_id, string_agg(distinct work, ' + ' order by work)
    from run_works(runs_of(p_workloads)) join runs using (run_id) group by workload_id
$$;

-- Return the values of quantities in workloads, see `workload_values`, with the change of each mean against the workload
-- `p_baseline`, see `change_of_work`.
create or replace function bench_dashboard.workload_values_against(p_workloads integer[], p_quantities text[], p_baseline text)
returns table (title text, quantity text, mean float8, mean_change text, lowest float8, highest float8) language sql stable as $$
    with measured as materialized (
        select v.workload_id, v.title, v.quantity, v.mean, v.lowest, v.highest, v.nth, w.work
        from workload_values(p_workloads, p_quantities) with ordinality
             as v (workload_id, title, quantity, runs, mean, lowest, highest, p95, total, nth)
        join workload_works(p_workloads) w using (workload_id)
    )
    select m.title, m.quantity, m.mean, change_of_work(m.work = b.work, array[m.mean], array[b.mean]), m.lowest, m.highest
    from measured m
    left join measured b on b.workload_id::text = p_baseline and b.quantity = m.quantity and b.workload_id <> m.workload_id
    order by m.nth
$$;

-- Return the results of workloads: the means over the passes in which every row finished, or the latest attempts where there is no
-- such pass. The first have changes against the workload `p_baseline`.
--
-- `n` counts these passes, `attempted` all that began, `failed` the latest attempts that ended early, `unfinished` also those that
-- run or wait. The duration is null where the latest attempts ran in several passes. The throughput is a software metric's means,
-- added up over the runs of a pass, or finished runs per hour. Energy is that above idle where each run has one, else that of whole
-- GPUs, idle included, where each run had its own. `repeated` has the values behind the means `seconds`, `throughput` and
-- `per_run`.
create or replace function bench_dashboard.workload_results(p_workloads integer[], p_throughput text, p_baseline text default null)
returns table (workload_id integer, experiment_id integer, title text, color text, stroke text, runs bigint, failed bigint,
               unfinished bigint, n bigint, seconds float8, seconds_change text, throughput float8, throughput_change text, energy float8,
               energy_of text, energy_change text, per_run float8, per_run_change text, repeated jsonb, attempted bigint) language sql stable as $$
    with attempts as materialized (
        select r.workload_id, r.run_id, r.status, r.started_at, coalesce(r.ended_at, now()) as until,
               row_number() over (partition by r.workload_id, r.position order by r.attempt desc) = 1 as latest
        from runs r where r.workload_id = any(p_workloads) and r.started_at is not null
    ), passed as (
        select a.*, p.pass,
               count(*) filter (where a.status = 'finished') over one = count(*) over one
               and count(*) over one = count(*) filter (where latest) over (partition by a.workload_id) as complete
        from attempts a join passes(array(select run_id from attempts)) p using (run_id)
        window one as (partition by a.workload_id, p.pass)
    ), counted as (
        select *, bool_or(complete) over (partition by workload_id) as repeated from passed
    ), chosen as materialized (
        select workload_id, run_id, status, started_at, until, pass, case when complete then pass end as repetition, complete
        from counted where complete or not repeated and latest
    ), logged as (
        select run_id, case when count(value) = count(*) then avg(value) end as throughput from software_metrics
        where run_id = any(array(select run_id from chosen)) and key in (select n.key from named_keys(array[p_throughput], runs_of(p_workloads)) n) group by run_id
    ), works as materialized (
        select run_id, program from run_works(array(select run_id from chosen))
    ), logging as materialized (
        select distinct program from logged join works using (run_id)
    ), repetitions as (
        select c.workload_id, c.repetition, bool_or(complete) as complete, count(*) as runs,
               case when min(c.pass) = max(c.pass) then extract(epoch from max(until) - min(started_at))::float8 end as seconds,
               count(*) filter (where status = 'finished') as finished, bool_or(status = 'running') as running,
               -- A run that logs no throughput counts only where others of its program log one.
               case when bool_and(l.throughput is not null or p.program not in (select program from logging)) then sum(l.throughput) end
                   as throughput,
               case when count(j.share) = count(*) then sum(j.share) end as share,
               case when count(j.whole) = count(*) then sum(j.whole) end as gpus
        from chosen c left join run_joules(array(select run_id from chosen)) j using (run_id) left join logged l using (run_id)
             join works p using (run_id)
        group by c.workload_id, c.repetition
    ), together as (
        select workload_id, count(*) filter (where complete) as n, max(runs) as runs, array_agg(seconds) as seconds,
               array_agg(case when p_throughput <> 'runs per hour' then throughput
                              when not running then finished / nullif(seconds, 0) * 3600 end) as throughput,
               case when bool_and(share is not null) then array_agg(share) when bool_and(gpus is not null) then array_agg(gpus) end
                   as energy,
               case when bool_and(share is not null) then 'above idle' when bool_and(gpus is not null) then 'whole GPUs' end
                   as energy_of,
               case when bool_and(share is not null) then array_agg(share / runs)
                    when bool_and(gpus is not null) then array_agg(gpus / runs) end as per_run
        from repetitions group by workload_id
    ), base as (
        select * from together where workload_id::text = p_baseline and n > 0
    )
    select x.workload_id, w.experiment_id, t.title, t.color, t.stroke, x.runs,
           e.failed, e.unfinished, x.n,
           mean_of_all(x.seconds), case when other then change_of_work(same, x.seconds, b.seconds) end,
           mean_of_all(x.throughput), case when other then change_of_work(same, x.throughput, b.throughput) end,
           mean_of_all(x.energy), x.energy_of,
           case when other and x.energy_of = b.energy_of then change_of_work(same, x.energy, b.energy) end,
           mean_of_all(x.per_run),
           case when other and x.energy_of = b.energy_of then change_of_work(same, x.per_run, b.per_run) end,
           jsonb_build_object('seconds', x.seconds, 'throughput', x.throughput, 'per_run', x.per_run),
           (select count(distinct pass) from passed p where p.workload_id = x.workload_id)
    from together x join workload_titles(p_workloads) t using (workload_id) join workloads w using (workload_id)
    join (select workload_id, count(*) filter (where ended_early(status)) as failed,
                 count(*) filter (where status <> 'finished') as unfinished
          from attempts where latest group by workload_id) e using (workload_id)
    left join base b on true
    left join workload_works(p_workloads) mine on mine.workload_id = x.workload_id
    left join workload_works(p_workloads) its on its.workload_id = b.workload_id
    cross join lateral (select x.n > 0 and x.workload_id <> b.workload_id as other, mine.work is not distinct from its.work as same) o
    order by t.nth
$$;

-- Return the numeric values of a parameter of runs, with their results: the duration in seconds, the last value of the software metric
-- `p_key`, and the energy unless it is divided evenly.
create or replace function bench_dashboard.parameter_results(p_runs text[], p_parameter text, p_key text)
returns table (title text, color text, stroke text, x float8, seconds float8, last float8, energy float8) language sql stable as $$
    select f.title, f.color, f.stroke, (r.params ->> p_parameter)::float8, f.seconds, f.last,
           case when f.energy_of <> 'divided evenly' then f.energy end
    from run_results(p_runs, null, p_key) f join runs r using (run_id)
    where r.params ->> p_parameter ~ '^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$'
$$;

-- Return the parameters whose values differ between runs.
create or replace function bench_dashboard.parameters(p_runs text[]) returns table (parameter text) language sql stable as $$
    select p.key from runs r cross join lateral jsonb_each_text(r.params) p
    where r.run_id = any(p_runs) group by p.key having count(distinct p.value) > 1 order by p.key
$$;
