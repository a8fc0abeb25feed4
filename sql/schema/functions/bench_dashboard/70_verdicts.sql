-- Verdicts on runs and workloads: the best, those that did not finish, and how far to trust the comparison.

-- Return the best of results with the worst: `20/2/1 bert-base: 00:07:30.2 (≈ 20/2/2, worst 20/1/1: 00:17:06)`; ≈ names the second
-- best if the difference may be noise. Results that share the first or the last place (see `places`) are named together. `p_repeated`
-- has the values of repetitions, whose mean is the result. Results without a value are left out, and counted. Of several works, only
-- the results of one are compared: of `p_work`, or if that has fewer than two, of that with most results. A single result is the `only`
-- one. `p_direction` is 1 where more is better.
create or replace function bench_internal.best_of(p_titles text[], p_values float8[], p_texts text[], p_direction integer, p_works text[],
                                                  p_work text, p_repeated jsonb[])
returns text language sql immutable as $$
    with results as (
        select *, split_part(title, ' ', 1) as short
        from rows from (unnest(p_titles), unnest(p_values), unnest(p_texts), unnest(p_works), unnest(p_repeated))
             with ordinality as x (title, value, words, work, repeated, nth)
        where p_direction is not null
    ), works as (
        select work, count(value) as n, count(*) as rows, min(nth) as nth from results group by work having count(value) > 0
    ), chosen as (
        select *, (select sum(n) from works) - n as others from works
        order by coalesce(work = p_work, false) and n > 1 desc, n desc, nth limit 1
    ), compared as (
        select r.* from results r join chosen using (work) where r.value is not null
    ), ranked as (
        select c.*, p.place, max(p.place) over () as last, row_number() over (order by p.place, c.nth) as at
        from (select *, row_number() over (order by nth) as line from compared) c
        join unnest(places(array(select value from compared order by nth), p_direction)) with ordinality as p (place, line) using (line)
    ), places as (
        select place, min(at) as at, max(last) as last,
               some_of(array_agg(case when at = 1 then title else short end order by at)) as names,
               some_of(array_agg(short order by at)) as shorts,
               (array_agg(words order by at))[1] as words, (array_agg(repeated order by at))[1] as repeated
        from ranked group by place
    ), marked as (
        select best.*, c.n, c.rows, c.others, best.place = best.last or best.words = worst.words as equal,
               concat_ws(', ',
                   case when tie.holds then format(case c.n when 2 then '≈ %s: %s' else '≈ %s' end, second.shorts, second.words) end,
                   case when c.n > 2 or c.n = 2 and not coalesce(tie.holds, false)
                        then format('worst %s: %s', worst.shorts, worst.words) end,
                   case when c.n < c.rows then format('%s of %s known', c.n, c.rows) end) as marks
        from chosen c join places best on best.at = 1
        left join lateral (select * from places p where p.place > 1 order by p.place limit 1) second on true
        left join places worst on worst.place = worst.last
        left join lateral (select low <= 0 and high >= 0 as holds from change(floats(best.repeated), floats(second.repeated))) tie on true
    )
    select case when n = 1 and others > 0 then 'not compared: different work'
                when rows = 1 and others = 0 then format('only %s: %s', names, words)
                else concat_ws('; ', case when equal and n > 1 then 'all ' || words
                                          else format('%s: %s', names, words) || coalesce(' (' || nullif(marks, '') || ')', '') end,
                               nullif(others, 0) || ' of other work') end
    from marked
$$;

-- Return the rows of runs that did not finish, by the latest of their attempts among these, which is the one count of failures:
-- `none of 8`, `1 of 8 failed: 21/1/1 tokenize (timeout)`, `2 of 8: 1 failed: 21/1/1 tokenize; 1 stopped: 21/1/2 train; 1 running`.
create or replace function bench_internal.unfinished(p_runs text[]) returns text language sql stable as $$
    with latest as (
        select distinct on (r.workload_id, r.position) r.run_id, r.status, r.status = 'stopped' as stopped,
               ended_early(r.status) and r.status <> 'stopped' as failed
        from runs r where r.run_id = any(p_runs) order by r.workload_id, r.position, r.attempt desc
    ), counted as (
        select count(*) as n, count(*) filter (where failed) as n_failed, count(*) filter (where stopped) as n_stopped,
               count(*) filter (where status = 'running') as n_running, count(*) filter (where status = 'pending') as n_pending,
               some_of(array_agg(concat(title, ' (' || nullif(status, 'failed') || ')') order by nth) filter (where failed)) as failures,
               some_of(array_agg(title order by nth) filter (where stopped)) as stops
        from latest join titled_runs(p_runs) t using (run_id)
    )
    select case when n_failed + n_stopped + n_running + n_pending = 0 then 'none of ' || n
                else concat_ws('; ',
                    case when n_failed > 0 and n_stopped > 0
                         then format('%s of %s: %s failed: %s; %s stopped: %s', n_failed + n_stopped, n, n_failed, failures, n_stopped, stops)
                         when n_failed > 0 then format('%s of %s failed: %s', n_failed, n, failures)
                         when n_stopped > 0 then format('%s of %s stopped: %s', n_stopped, n, stops) end,
                    nullif(n_running, 0) || ' running', nullif(n_pending, 0) || ' not started') end
    from counted where n > 0
$$;

-- Return the best of energies, see `best_of`, or the reason why there is none. `p_runs` are all runs of the comparison.
create or replace function bench_internal.leanest_of(p_titles text[], p_energies float8[], p_kinds text[], p_works text[], p_work text,
                                                     p_repeated jsonb[], p_runs text[])
returns text language sql stable as $$
    select case count(distinct kind) when 1 then best_of(p_titles, p_energies, array(select energy_text(x) from unnest(p_energies) x), -1,
                                                         p_works, p_work, p_repeated)
                                     when 0 then case when exists (select from run_flags f join placements p using (run_id)
                                                                   where f.run_id = any(p_runs) and f.shared and p.gpu_uuid is not null)
                                                      then 'not known: GPUs were shared' else 'not measured' end
                                     else 'not compared: some include idle energy' end
    from unnest(p_kinds) kind having p_titles is not null
$$;

-- Return the verdict on runs in one row of short answers: the fastest, the one with least energy, the one with the best last value
-- of `p_key`, and those that did not finish. Only finished runs are candidates. Durations and energies are compared within one work, that
-- of the run `p_baseline` where possible, values of `p_key` within one program. Energies are compared where all are of one kind; those
-- divided evenly are no candidates.
create or replace function bench_dashboard.run_verdict(p_runs text[], p_key text default null, p_baseline text default null)
returns table (fastest text, leanest text, best text, failed text) language sql stable as $$
    with works as materialized (
        select * from run_works(p_runs)
    ), finished as materialized (
        select f.nth, f.title, f.seconds, f.last, f.repeated, w.work, w.program,
               case when f.energy_of <> 'divided evenly' then f.energy end as energy, nullif(f.energy_of, 'divided evenly') as energy_of
        from run_results(p_runs, null, p_key) f join works w using (run_id) where f.n > 0
    ), given as (
        select array_agg(title order by nth) as titles, array_agg(work order by nth) as works, array_agg(program order by nth) as programs,
               array_agg(seconds order by nth) as seconds, array_agg(duration_text(seconds) order by nth) as durations,
               array_agg(repeated -> 'seconds' order by nth) as all_seconds,
               array_agg(energy order by nth) as energies, array_agg(energy_of) as kinds,
               array_agg(repeated -> 'energy' order by nth) as all_energies,
               array_agg(last order by nth) as "last", array_agg(four_digits(last)::text order by nth) as last_texts,
               array_agg(repeated -> 'last' order by nth) as all_last
        from finished
    )
    select best_of(titles, seconds, durations, -1, works, its.work, all_seconds),
           leanest_of(titles, energies, kinds, works, its.work, all_energies, p_runs),
           best_of(titles, "last", last_texts, better_direction(p_key), programs, its.program, all_last), unfinished(p_runs)
    from given left join works its on its.run_id = p_baseline
$$;

-- Return how far to trust a comparison with these notices: `Comparable`, or `With care: ` and the gravest warnings.
create or replace function bench_dashboard.trust_text(p_codes text[], p_severities text[]) returns text language sql immutable as $$
    select case when count(*) = 0 then 'Comparable'
                else 'With care: ' || string_agg(title, ', ' order by nth) filter (where nth <= 2)
                     || case when count(*) > 2 then format(' and %s more notice%s', count(*) - 2, case when count(*) > 3 then 's' end)
                             else '' end end
    from (select notice_title(x.code) as title,
                 row_number() over (order by array_position(array['simulated_gpu', 'other_programs', 'other_gpu_processes', 'ended_early', 'not_measured',
                     'partial_coverage', 'scopes_differ', 'mean_of_fewer', 'shared_resource', 'profiled'], x.code), min(x.nth)) as nth
          from rows from (unnest(p_codes), unnest(p_severities)) with ordinality as x (code, severity, nth)
          where severity = 'warning' group by x.code) warnings
$$;

-- Return the verdict on workloads in one row of short answers: the shortest, the one with least energy per run, the one with the
-- greatest throughput, and the runs that did not finish. Workloads are compared where their runs do the same kinds of work, those of the
-- workload `p_baseline` where possible.
create or replace function bench_dashboard.workload_verdict(p_workloads integer[], p_throughput text, p_baseline text default null)
returns table (fastest text, leanest text, best text, failed text) language sql stable as $$
    with works as materialized (
        select * from workload_works(p_workloads)
    ), finished as materialized (
        select f.*, w.work, row_number() over () as nth
        from (select * from workload_results(p_workloads, p_throughput) where n > 0) f join works w using (workload_id)
    ), given as (
        select array_agg(title order by nth) as titles, array_agg(work order by nth) as works,
               array_agg(seconds order by nth) as seconds, array_agg(duration_text(seconds) order by nth) as durations,
               array_agg(repeated -> 'seconds' order by nth) as all_seconds,
               array_agg(per_run order by nth) as energies, array_agg(energy_of) as kinds,
               array_agg(repeated -> 'per_run' order by nth) as all_energies,
               array_agg(throughput order by nth) as throughputs, array_agg(repeated -> 'throughput' order by nth) as all_throughputs,
               array_agg(four_digits(throughput)::text order by nth) as throughput_texts, count(*) as n
        from finished
    )
    -- A table may show a shorter duration: that of a workload with a run that did not finish.
    select best_of(titles, seconds, durations, -1, works, its.work, all_seconds)
           || coalesce('; ' || nullif(cardinality(p_workloads) - n, 0) || ' did not finish', ''),
           leanest_of(titles, energies, kinds, works, its.work, all_energies, runs_of(p_workloads)),
           best_of(titles, throughputs, throughput_texts, 1, works, its.work, all_throughputs), unfinished(runs_of(p_workloads))
    from given left join works its on its.workload_id::text = p_baseline
$$;
