-- Results of runs and workloads: means over repetitions, changes against a baseline with their intervals, and a verdict.

-- Return the 97.5th percentile of Student's t: half the width of a 95 % interval in standard errors. Between the degrees of
-- freedom of the table its logarithm is interpolated over their reciprocal, within 3 % of the exact value.
create or replace function bench_internal.t_value(p_freedom float8) returns float8 language sql immutable as $$
    with knots as (
        select nth, freedom, ln(t) as t
        from rows from (unnest(array[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 20, 30, 60, 1e9]::float8[]),
                        unnest(array[12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.179, 2.131, 2.086,
                                     2.042, 2.000, 1.960]::float8[])) with ordinality as x (freedom, t, nth)
    )
    select exp(a.t + (b.t - a.t) * (1 / greatest(p_freedom, 1) - 1 / a.freedom) / (1 / b.freedom - 1 / a.freedom))
    from knots a join knots b on b.nth = a.nth + 1
    where greatest(p_freedom, 1) >= a.freedom and greatest(p_freedom, 1) < b.freedom
$$;

-- Return a mean relative to the sum of means, with its 95 % interval where each has two values or more: that of
-- `hypergauge.insight.sharing.ratio`. Means come with their sample variances and numbers of values. Null where a mean is not positive.
create or replace function bench_internal.ratio(p_mean float8, p_variance float8, p_count bigint, p_means float8[], p_variances float8[],
                                                p_counts bigint[], out value float8, out low float8, out high float8)
language sql immutable as $$
    with base as (
        select sum(m) as mean from unnest(p_means) m having bool_and(m > 0) and p_mean > 0
    ), samples as (
        select p_variance / p_mean ^ 2 as variance, p_count as n, 1.0 / p_count as part
        union all
        select x.variance / x.mean ^ 2, x.n, (x.mean / base.mean) ^ 2 / x.n
        from rows from (unnest(p_means), unnest(p_variances), unnest(p_counts)) as x (mean, variance, n) cross join base
    ), spread as (
        select sum(part * variance) as welch, sum((part * variance) ^ 2 / (n - 1)) as of_parts,
               sum(variance * (n - 1)) / sum(n - 1) * sum(part) as student, sum(n - 1) as freedom
        from samples having min(n) > 1
    )
    select p_mean / base.mean, p_mean / base.mean / width, p_mean / base.mean * width
    from base left join lateral (
        select case when welch = 0 then 1
                    else exp(greatest(t_value(welch ^ 2 / nullif(of_parts, 0)) * sqrt(welch), t_value(freedom::float8) * sqrt(student)))
               end as width
        from spread) x on true
$$;

-- Return the relative change of the mean of repetitions against that of a baseline, 0.1 for 10 % more, with its 95 % interval
-- from two repetitions on; see `ratio`. Null where a mean is not positive.
create or replace function bench_internal.change(p_mine float8[], p_base float8[], out value float8, out low float8, out high float8)
language sql immutable as $$
    select r.value - 1, r.low - 1, r.high - 1
    from (select avg(x) as mean, var_samp(x) as variance, count(x) as n from unnest(p_mine) x) m
    cross join (select avg(x) as mean, var_samp(x) as variance, count(x) as n from unnest(p_base) x) b
    cross join lateral ratio(m.mean, m.variance, m.n, array[b.mean], array[b.variance], array[b.n]) r
$$;

-- Return a share as a change with its sign: -17%, +4.5%.
create or replace function bench_internal.signed_percent(p_share float8) returns text language sql immutable as $$
    select case when x < 0 then '-' when x > 0 then '+' else '' end || abs(x) || '%'
    from (select round((100 * p_share)::numeric, case when abs(p_share) < 0.0995 then 1 else 0 end) as x) rounded
$$;

-- Return a change as text, with its interval; ≈ where the interval holds 0, so that the change may be noise.
create or replace function bench_internal.change_text(p_mine float8[], p_base float8[]) returns text language sql immutable as $$
    select concat(case when low <= 0 and high >= 0 then '≈ ' end, signed_percent(value),
                  ' (' || trim('%' from signed_percent(low)) || ' to ' || trim('%' from signed_percent(high)) || ')')
    from change(p_mine, p_base) where value is not null
$$;

-- Return a change as text, with ≠ where the baseline did other work, so that it is neither better nor worse.
create or replace function bench_internal.change_of_work(p_same boolean, p_mine float8[], p_base float8[]) returns text
language sql immutable as $$
    select case when p_same then t.text else '≠ ' || ltrim(t.text, '≈ ') end from change_text(p_mine, p_base) as t (text)
$$;

-- Return a duration as text, as tables show it, in whole seconds that have passed: 4.2 s, 00:03:07, 167:50:00.
create or replace function bench_internal.duration_text(p_seconds float8) returns text language sql immutable as $$
    select case when p_seconds < 60 then round(p_seconds::numeric, 1) || ' s'
                else lpad(floor(p_seconds / 3600)::text, greatest(2, length(floor(p_seconds / 3600)::text)), '0')
                     || to_char(make_interval(secs => mod(floor(p_seconds)::bigint, 3600)), ':MI:SS') end
$$;

-- Return an energy in joules as text: 530 J, 12.5 kJ.
create or replace function bench_internal.energy_text(p_joules float8) returns text language sql immutable as $$
    select case when p_joules < 10000 then round(p_joules) || ' J' else round(p_joules::numeric / 1000, 1) || ' kJ' end
$$;

-- Return 1 where more of a software metric is better, -1 where less is, null where its name does not show it.
create or replace function bench_internal.better_direction(p_key text) returns integer language sql immutable as $$
    select case when p_key ~* 'loss|(^|[^a-z])(error|rmse|mse|mae|perplexity|ppl)($|[^a-z])' then -1
                when p_key ~* '(^|[^a-z])(acc(uracy)?|f1|auc|bleu|score|r2|precision|recall)($|[^a-z])' then 1 end
$$;

-- Return the software metrics of runs by relevance: loss and accuracy first, those of MLflow's autologging and of the system last.
create or replace function bench_dashboard.result_keys(p_runs text[]) returns table (key text) language sql stable as $$
    select key from software_keys(p_runs)
    order by key ~ '^(training_|system/)',
             case when key ~* 'loss' then 0 when better_direction(key) is not null then 1 else 2 end, key
$$;

-- Return the last value of a software metric in runs: one index lookup per run.
create or replace function bench_internal.last_values(p_runs text[], p_key text) returns table (run_id text, value float8)
language sql stable as $$
    select run_id, l.value
    from (select distinct run_id from unnest(p_runs) as r (run_id)) r cross join lateral (
        select value from software_metrics s where s.run_id = r.run_id and s.key = p_key and s.value is not null
        order by step desc, time desc limit 1) l
$$;

-- Return the work of runs. Results are comparable within one work, which attempts, devices, neighbours and parameters may vary. The
-- work is the name of the run, by default that of its file or model. Rows of one program whose names all differ are `variants` of one work.
create or replace function bench_dashboard.run_works(p_runs text[]) returns table (run_id text, work text, variants boolean)
language sql stable as $$
    with named as (
        select r.run_id, r.workload_id, r.position, coalesce(nullif(r.name, ''), program) as name, program
        -- The words before the first option; after `-m` stands a module.
        from runs r cross join lateral (select substring(replace(r.command, ' -m ', ' ') from '^.*?(?= -|$)') as program) p
        where r.run_id = any(p_runs)
    ), counted as (
        select count(distinct program) = 1 and count(distinct name) > 1
               and count(distinct name) = count(distinct (workload_id, position)) as variants from named
    )
    select run_id, case when variants then program else name end, variants from named cross join counted
$$;

-- Return the results of rows: the means over the finished attempts among these runs, with changes against the row of the run
-- `p_baseline`; over all attempts and without changes where none has finished.
--
-- `n` counts the finished attempts, `failed` those that ended early. Energy is that above idle, an equal part of it (see
-- `energy_divided`), or that of whole GPUs with idle. These are not comparable: `energy_of` names them. `shared` marks that GPU
-- values may be those of other runs too. `last` is the last value of the software metric `p_key`. Changes against a baseline of
-- other work are marked, see `change_of_work`.
create or replace function bench_dashboard.run_results(p_runs text[], p_baseline text default null, p_key text default null)
returns table (nth bigint, run_id text, title text, color text, stroke text, status text, started_at timestamptz,
               ended_at timestamptz, n bigint, failed bigint, seconds float8, seconds_change text, sm_active float8, utilization float8, cpu float8, energy float8, energy_of text,
               energy_change text, last float8, last_change text, shared boolean) language sql stable as $$
    with requested as materialized (
        select r.run_id, r.workload_id, r.position, r.attempt, r.status, ended_early(r.status) as early,
               extract(epoch from coalesce(r.ended_at, now()) - r.started_at)::float8 as seconds,
               r.status = 'finished'
               or not bool_or(r.status = 'finished') over (partition by r.workload_id, r.position) as counts
        from runs r where r.run_id = any(p_runs) and r.started_at is not null
    ), measured as materialized (
        select run_id, max(mean) filter (where quantity = 'gpu_sm_active') as sm_active,
               max(mean) filter (where quantity = 'gpu_utilization') as utilization,
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
               avg(sm_active) filter (where counts) as sm_active, avg(utilization) filter (where counts) as utilization,
               avg(cpu) filter (where counts) as cpu, array_agg(l.value) filter (where counts) as last,
               array_agg(share) filter (where counts) as shares, array_agg(whole) filter (where counts) as wholes,
               bool_and(share is not null) filter (where counts) as attributed,
               coalesce(bool_or(a.run_id in (select run_id from divided)) filter (where counts), false) as is_divided,
               bool_and(whole is not null) filter (where counts) as alone
        from requested a left join measured using (run_id) left join last_values(p_runs, p_key) l using (run_id)
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
           (select avg(x) from unnest(k.seconds) x), case when other then change_of_work(same, k.seconds, b.seconds) end,
           k.sm_active, k.utilization, k.cpu, (select avg(x) from unnest(k.energy) x), k.energy_of,
           case when other and k.energy_of = b.energy_of then change_of_work(same, k.energy, b.energy) end,
           (select avg(x) from unnest(k.last) x), case when other then change_of_work(same, k.last, b.last) end, coalesce(f.shared, false)
    from known k join runs r using (run_id) join titled_runs(p_runs) t using (run_id)
    left join run_flags f on f.run_id = k.run_id left join base b on true
    left join run_works(p_runs) mine on mine.run_id = k.run_id left join run_works(p_runs) its on its.run_id = b.run_id
    cross join lateral (select k.n > 0 and k.run_id <> b.run_id as other, mine.work is not distinct from its.work as same) o
    order by t.nth
$$;

-- Return the best of the results of each work in a line with the worst: `20/2/1 bert-base: 00:07:30 (worst 00:17:06)`. Those without
-- a value are left out, and counted. Of several works, it names the best of the two with most results, and counts the results of the
-- others: one result of a work has no other to compare. `p_direction` is 1 where more is better.
create or replace function bench_internal.best_of(p_titles text[], p_values float8[], p_texts text[], p_direction integer,
                                                  p_works text[], p_variants boolean default false)
returns text language sql immutable as $$
    with works as (
        select work, count(value) as n, count(*) as rows, min(nth) as nth, min(value) = max(value) or min(known) = max(known) as equal,
               min(known) as text,
               (array_agg(format('%s: %s', title, words) order by p_direction * value desc nulls last, nth))[1] as best,
               (array_agg(words order by p_direction * value nulls last, nth))[1] as worst
        from rows from (unnest(p_titles), unnest(p_values), unnest(p_texts), unnest(p_works)) with ordinality
             as x (title, value, words, work, nth)
        cross join lateral (select case when value is not null then words end as known) k
        where p_direction is not null group by work having count(value) > 0
    ), ranked as (
        select *, count(*) over () as several, row_number() over (order by n desc, nth) as rank from works
    ), answered as (
        select *, several = 1 or n > 1 and rank <= 2 as shown,
               case when n > 1 and equal then concat_ws(' ', case when several > 1 then work end, 'all equal:', text) else best end
               || coalesce(' (' || nullif(concat_ws(', ', case when not equal then 'worst ' || worst end,
                                                    case when not equal and p_variants then 'names differ' end,
                                                    case when n < rows then format('%s of %s measured', n, rows) end), '') || ')', '')
               as answer
        from ranked
    )
    select case when bool_or(shown) then concat_ws('; ', string_agg(answer, '; ' order by rank) filter (where shown),
                                                   sum(n) filter (where not shown) || ' of other work')
                else 'not compared: different work' end
    from answered having count(*) > 0
$$;

-- Return the runs that did not finish: `none of 8`, `1 of 8 failed: 21/1/1 tokenize (timeout); 1 of 8 stopped: 21/1/2 train; 1 running`.
create or replace function bench_internal.unfinished(p_runs text[]) returns text language sql stable as $$
    select case when count(*) = count(*) filter (where status = 'finished') then 'none of ' || count(*)
                else concat_ws('; ',
                    case when bool_or(failed) then format('%s of %s failed: %s', count(*) filter (where failed), count(*),
                         some_of(array_agg(concat(title, ' (' || nullif(status, 'failed') || ')') order by nth) filter (where failed))) end,
                    case when bool_or(stopped) then format('%s of %s stopped: %s', count(*) filter (where stopped), count(*),
                         some_of(array_agg(title order by nth) filter (where stopped))) end,
                    nullif(count(*) filter (where status = 'running'), 0) || ' running',
                    nullif(count(*) filter (where status = 'pending'), 0) || ' not started') end
    from (select r.status, r.status = 'stopped' as stopped, ended_early(r.status) and r.status <> 'stopped' as failed, t.title, t.nth
          from runs r join titled_runs(p_runs) t using (run_id)) x
    having count(*) > 0
$$;

-- Return the verdict on runs in one row of short answers: the fastest, the one with least energy, the one with the best last value
-- of `p_key`, and those that did not finish. Only finished runs are candidates, and only those of one work are compared. Energies are
-- compared where all are of one kind; those divided evenly are no candidates.
create or replace function bench_dashboard.run_verdict(p_runs text[], p_key text default null)
returns table (fastest text, leanest text, best text, failed text) language sql stable as $$
    with finished as materialized (
        select f.nth, f.title, f.seconds, f.last, w.work, w.variants,
               case when f.energy_of <> 'divided evenly' then f.energy end as energy, nullif(f.energy_of, 'divided evenly') as energy_of
        from run_results(p_runs, null, p_key) f join run_works(p_runs) w using (run_id) where f.n > 0
    ), given as (
        select array_agg(title order by nth) as titles, array_agg(work order by nth) as works, bool_or(variants) as variants,
               array_agg(seconds order by nth) as seconds, array_agg(duration_text(seconds) order by nth) as durations,
               array_agg(energy order by nth) as energies, array_agg(energy_text(energy) order by nth) as energy_texts,
               count(distinct energy_of) as kinds, array_agg(last order by nth) as "last",
               array_agg(to_char(last, '9.999EEEE')::float8::text order by nth) as last_texts
        from finished
    )
    select best_of(titles, seconds, durations, -1, works, variants),
           case when kinds = 1 then best_of(titles, energies, energy_texts, -1, works, variants) end,
           best_of(titles, "last", last_texts, better_direction(p_key), works, variants), unfinished(p_runs)
    from given
$$;

-- Return how far to trust a comparison with these notices: `Comparable`, or `With care: ` and the gravest warnings.
create or replace function bench_dashboard.trust_text(p_codes text[], p_severities text[]) returns text language sql immutable as $$
    select case when count(*) = 0 then 'Comparable'
                else 'With care: ' || string_agg(title, ', ' order by nth) filter (where nth <= 2)
                     || case when count(*) > 2 then format(' and %s more', count(*) - 2) else '' end end
    from (select notice_title(x.code) as title,
                 row_number() over (order by array_position(array['simulated_gpu', 'ended_early', 'not_measured',
                     'partial_coverage', 'scopes_differ', 'mean_of_fewer', 'shared_resource', 'profiled'], x.code), min(x.nth)) as nth
          from rows from (unnest(p_codes), unnest(p_severities)) with ordinality as x (code, severity, nth)
          where severity = 'warning' group by x.code) warnings
$$;

-- Return the work of workloads: that of their runs together, see `run_works`.
create or replace function bench_internal.workload_works(p_workloads integer[])
returns table (workload_id integer, work text, variants boolean) language sql stable as $$
    select workload_id, string_agg(distinct work, ' + ' order by work), bool_or(variants)
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
-- `n` counts these passes, `failed` the latest attempts that ended early. The duration is null where the latest attempts ran in
-- several passes. The throughput is a software metric's means, added up over the runs of a pass, or finished runs per hour. Energy is
-- that above idle where each run has one, else that of whole GPUs, idle included, where each run had its own.
create or replace function bench_dashboard.workload_results(p_workloads integer[], p_throughput text, p_baseline text default null)
returns table (workload_id integer, experiment_id integer, title text, color text, stroke text, runs bigint, failed bigint,
               n bigint, seconds float8, seconds_change text, throughput float8, throughput_change text, energy float8,
               energy_of text, energy_change text, per_run float8, per_run_change text) language sql stable as $$
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
        select run_id, avg(value) as throughput from software_metrics
        where run_id = any(array(select run_id from chosen)) and key = p_throughput group by run_id
    ), repetitions as (
        select c.workload_id, c.repetition, bool_or(complete) as complete, count(*) as runs,
               case when min(c.pass) = max(c.pass) then extract(epoch from max(until) - min(started_at))::float8 end as seconds,
               count(*) filter (where status = 'finished') as finished, bool_or(status = 'running') as running, sum(l.throughput) as throughput,
               case when count(j.share) = count(*) then sum(j.share) end as share,
               case when count(j.whole) = count(*) then sum(j.whole) end as gpus
        from chosen c left join run_joules(array(select run_id from chosen)) j using (run_id) left join logged l using (run_id)
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
           (select count(*) from attempts a where a.workload_id = x.workload_id and a.latest and ended_early(a.status)), x.n,
           (select avg(v) from unnest(x.seconds) v), case when other then change_of_work(same, x.seconds, b.seconds) end,
           (select avg(v) from unnest(x.throughput) v), case when other then change_of_work(same, x.throughput, b.throughput) end,
           (select avg(v) from unnest(x.energy) v), x.energy_of,
           case when other and x.energy_of = b.energy_of then change_of_work(same, x.energy, b.energy) end,
           (select avg(v) from unnest(x.per_run) v),
           case when other and x.energy_of = b.energy_of then change_of_work(same, x.per_run, b.per_run) end
    from together x join workload_titles(p_workloads) t using (workload_id) join workloads w using (workload_id)
    left join base b on true
    left join workload_works(p_workloads) mine on mine.workload_id = x.workload_id
    left join workload_works(p_workloads) its on its.workload_id = b.workload_id
    cross join lateral (select x.n > 0 and x.workload_id <> b.workload_id as other, mine.work is not distinct from its.work as same) o
    order by t.nth
$$;

-- Return the verdict on workloads in one row of short answers: the shortest, the one with least energy per run, the one with the
-- greatest throughput, and the runs that ended early. Workloads are compared where their runs do the same kinds of work.
create or replace function bench_dashboard.workload_verdict(p_workloads integer[], p_throughput text)
returns table (fastest text, leanest text, best text, failed text) language sql stable as $$
    with finished as materialized (
        select f.*, w.work, w.variants, row_number() over () as nth
        from (select * from workload_results(p_workloads, p_throughput) where n > 0) f
        join workload_works(p_workloads) w using (workload_id)
    ), given as (
        select array_agg(title order by nth) as titles, array_agg(work order by nth) as works, bool_or(variants) as variants,
               array_agg(seconds order by nth) as seconds, array_agg(duration_text(seconds) order by nth) as durations,
               array_agg(per_run order by nth) as energies, array_agg(energy_text(per_run) order by nth) as energy_texts,
               count(distinct energy_of) as kinds, array_agg(throughput order by nth) as throughputs,
               array_agg(to_char(throughput, '9.99EEEE')::float8::text order by nth) as throughput_texts, count(*) as n
        from finished
    )
    -- A table may show a shorter duration: that of a workload with a run that did not finish.
    select best_of(titles, seconds, durations, -1, works, variants)
           || coalesce('; ' || nullif(cardinality(p_workloads) - n, 0) || ' not finished', ''),
           case when kinds = 1 then best_of(titles, energies, energy_texts, -1, works, variants) end,
           best_of(titles, throughputs, throughput_texts, 1, works, variants), unfinished(runs_of(p_workloads))
    from given
$$;

-- Return titles, order and colors of the curves of a metric, as `run_titles`. Of more than `p_many` runs, only those that ended early,
-- and those with the lowest and the highest mean of a quantity or last value of a software metric keep their color.
create or replace function bench_dashboard.curve_titles(p_runs text[], p_metrics text[], p_many integer default 12)
returns table (run text, title text, nth bigint, color text, stroke text) language sql stable as $$
    with many as (
        select p_runs as runs where cardinality(p_runs) > p_many
    ), "values" as (
        select v.run_id, v.mean as value from many cross join lateral run_values(runs, p_metrics) v
        union all
        select l.run_id, l.value from many cross join unnest(p_metrics) as m (key) cross join lateral last_values(runs, key) l
    ), named as (
        select run_id
        from (select run_id, rank() over (order by value) as low, rank() over (order by value desc) as high from "values") x
        where low = 1 or high = 1
        union
        select r.run_id from many join runs r on r.run_id = any(many.runs) where ended_early(r.status)
    )
    select t.run, t.title, t.nth,
           case when exists (select from many) and t.run_id not in (select run_id from named) then 'gray' else t.color end, t.stroke
    from titled_runs(p_runs) t
$$;

-- Return the end of the titles of charts whose range from 1970 ends before the longest of these runs; no row for others.
create or replace function bench_dashboard.chart_cut(p_runs text[], p_from timestamptz, p_to timestamptz)
returns setof text language sql stable as $$
    select format(' · first %s of %s', duration_text(seconds), duration_text(longest))
    from (select longest_run(p_runs) as longest, extract(epoch from p_to)::float8 as seconds) x
    where p_from = timestamptz '1970-01-01 00:00:00+00' and floor(longest) > seconds
$$;

-- Return the intervals in which other runs used a GPU of a run.
create or replace function bench_internal.shared_times(p_runs text[])
returns table (run_id text, started_at timestamptz, ended_at timestamptz) language sql stable as $$
    select run_id, lower(part), upper(part)
    from (select run_id, unnest(range_agg(tstzrange(started_at, coalesce(ended_at, now())))) as part
          from run_sets where run_id = any(p_runs) and scope = 'device' group by run_id) shared
$$;

-- Return the same on an axis of time, by the label that `run_chart` returns; `whole` where that is the whole run.
create or replace function bench_dashboard.chart_shared(p_runs text[], p_align text default 'time')
returns table (run text, since timestamptz, until timestamptz, whole boolean) language sql stable as $$
    select l.run, timestamptz '1970-01-01 00:00:00+00' + (s.started_at - o.zero),
           timestamptz '1970-01-01 00:00:00+00' + (s.ended_at - o.zero),
           s.started_at <= r.started_at and s.ended_at >= coalesce(r.ended_at, s.ended_at)
    from shared_times(p_runs) s join runs r using (run_id) join workloads w using (workload_id)
    cross join lateral (select run_label(w, r) as run offset 0) l
    cross join lateral (select axis_origin(r.run_id, p_align) as zero offset 0) o
$$;

-- Return the median and the 10th and 90th percentile of more than `p_many` runs at each point that three quarters of their curves have; no row
-- for fewer runs.
create or replace function bench_dashboard.run_band(
    p_runs text[], p_quantities text[], start timestamptz, stop timestamptz, step_ms double precision, p_max_series integer,
    p_align text default 'time', p_many integer default 12
) returns table ("time" timestamptz, low double precision, median double precision, high double precision) language sql stable as $$
    select c.time, at[1], at[2], at[3]
    from (select x.time, percentile_cont('{0.1,0.5,0.9}'::float8[]) within group (order by x.value) as at,
                 max(count(*)) over () > p_many and 4 * count(*) >= 3 * max(count(*)) over () as most
          from run_chart(p_runs, p_quantities, run_band.start, run_band.stop, run_band.step_ms, true, p_max_series, null, false,
                         p_align) x
          where cardinality(p_runs) > p_many group by x.time) c
    where most order by c.time
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
