-- Verdicts on runs and workloads: the best, those that did not finish, and how far to trust the comparison.

-- Return the best of results with the worst: `20/2/1 bert-base: 00:07:30.2 (worst 20/1/1: 00:17:06)`. Those without a value are left
-- out, and counted. Of several works, it names the best of the two with most results: `small: 20/2/1, 4.2 s; large: 20/3/1, 30.7 s; 2
-- others not compared`. One result of a work has no other to compare. `p_direction` is 1 where more is better.
create or replace function bench_internal.best_of(p_titles text[], p_values float8[], p_texts text[], p_direction integer, p_works text[])
returns text language sql immutable as $$
    with works as (
        select work, count(value) as n, count(*) as rows, min(nth) as nth, min(value) = max(value) or min(known) = max(known) as equal,
               min(known) as text,
               (array_agg(array[title, words] order by p_direction * value desc nulls last, nth))[1:1] as best,
               (array_agg(array[split_part(title, ' ', 1), words] order by p_direction * value nulls last, nth))[1:1] as worst
        from rows from (unnest(p_titles), unnest(p_values), unnest(p_texts), unnest(p_works)) with ordinality
             as x (title, value, words, work, nth)
        cross join lateral (select case when value is not null then words end as known) k
        where p_direction is not null group by work having count(value) > 0
    ), ranked as (
        select *, count(*) over () as several, row_number() over (order by n desc, nth) as rank from works
    ), answered as (
        select *, several = 1 or n > 1 and rank <= 2 as shown,
               case when n > 1 and equal then concat(case when several > 1 then work || ': ' end, 'all ', text)
                    when several > 1 then format('%s: %s, %s', work, split_part(best[1][1], ' ', 1), best[1][2])
                    else format('%s: %s', best[1][1], best[1][2]) end
               || coalesce(' (' || nullif(concat_ws(', ', case when not equal and several = 1 then format('worst %s: %s', worst[1][1], worst[1][2]) end,
                                                    case when n < rows then format('%s of %s measured', n, rows) end), '') || ')', '')
               as answer
        from ranked
    ), others as (
        select sum(n) as n from answered where not shown
    )
    select case when bool_or(shown) then concat_ws('; ', string_agg(answer, '; ' order by rank) filter (where shown),
                                                   (select format('%s other%s not compared', n, case when n > 1 then 's' end) from others where n > 0))
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

-- Return the best of energies, or the reason why there is none.
create or replace function bench_internal.leanest_of(p_titles text[], p_energies float8[], p_kinds text[], p_works text[], p_shared boolean)
returns text language sql immutable as $$
    select case count(distinct kind) when 1 then best_of(p_titles, p_energies, array(select energy_text(x) from unnest(p_energies) x), -1, p_works)
                                     when 0 then case when p_shared then 'not known: GPUs were shared' else 'not measured' end
                                     else 'not compared: some include idle energy' end
    from unnest(p_kinds) kind having p_titles is not null
$$;

-- Return the verdict on runs in one row of short answers: the fastest, the one with least energy, the one with the best last value
-- of `p_key`, and those that did not finish. Only finished runs are candidates. Durations and energies are compared within one work,
-- values of `p_key` within one program. Energies are compared where all are of one kind; those divided evenly are no candidates.
create or replace function bench_dashboard.run_verdict(p_runs text[], p_key text default null)
returns table (fastest text, leanest text, best text, failed text) language sql stable as $$
    with finished as materialized (
        select f.nth, f.title, f.seconds, f.last, w.work, w.program,
               f.shared and exists (select from placements p where p.run_id = f.run_id and p.gpu_uuid is not null) as shared,
               case when f.energy_of <> 'divided evenly' then f.energy end as energy, nullif(f.energy_of, 'divided evenly') as energy_of
        from run_results(p_runs, null, p_key) f join run_works(p_runs) w using (run_id) where f.n > 0
    ), given as (
        select array_agg(title order by nth) as titles, array_agg(work order by nth) as works, array_agg(program order by nth) as programs,
               array_agg(seconds order by nth) as seconds, array_agg(duration_text(seconds) order by nth) as durations,
               array_agg(energy order by nth) as energies, array_agg(energy_of) as kinds, bool_or(shared) as shared,
               array_agg(last order by nth) as "last", array_agg(to_char(last, '9.999EEEE')::float8::text order by nth) as last_texts
        from finished
    )
    select best_of(titles, seconds, durations, -1, works), leanest_of(titles, energies, kinds, works, shared),
           best_of(titles, "last", last_texts, better_direction(p_key), programs), unfinished(p_runs)
    from given
$$;

-- Return how far to trust a comparison with these notices: `Comparable`, or `With care: ` and the gravest warnings.
create or replace function bench_dashboard.trust_text(p_codes text[], p_severities text[]) returns text language sql immutable as $$
    select case when count(*) = 0 then 'Comparable'
                else 'With care: ' || string_agg(title, ', ' order by nth) filter (where nth <= 2)
                     || case when count(*) = 3 then ' and 1 more notice'
                             when count(*) > 3 then format(' and %s more notices', count(*) - 2) else '' end end
    from (select notice_title(x.code) as title,
                 row_number() over (order by array_position(array['simulated_gpu', 'ended_early', 'not_measured',
                     'partial_coverage', 'scopes_differ', 'mean_of_fewer', 'shared_resource', 'profiled'], x.code), min(x.nth)) as nth
          from rows from (unnest(p_codes), unnest(p_severities)) with ordinality as x (code, severity, nth)
          where severity = 'warning' group by x.code) warnings
$$;

-- Return the verdict on workloads in one row of short answers: the shortest, the one with least energy per run, the one with the
-- greatest throughput, and the runs that ended early. Workloads are compared where their runs do the same kinds of work.
create or replace function bench_dashboard.workload_verdict(p_workloads integer[], p_throughput text)
returns table (fastest text, leanest text, best text, failed text) language sql stable as $$
    with finished as materialized (
        select f.*, w.work, row_number() over () as nth
        from (select * from workload_results(p_workloads, p_throughput) where n > 0) f
        join workload_works(p_workloads) w using (workload_id)
    ), given as (
        select array_agg(title order by nth) as titles, array_agg(work order by nth) as works,
               array_agg(seconds order by nth) as seconds, array_agg(duration_text(seconds) order by nth) as durations,
               array_agg(per_run order by nth) as energies, array_agg(energy_of) as kinds, array_agg(throughput order by nth) as throughputs,
               array_agg(to_char(throughput, '9.99EEEE')::float8::text order by nth) as throughput_texts, count(*) as n
        from finished
    )
    -- A table may show a shorter duration: that of a workload with a run that did not finish.
    select best_of(titles, seconds, durations, -1, works)
           || coalesce('; ' || nullif(cardinality(p_workloads) - n, 0) || ' did not finish', ''),
           leanest_of(titles, energies, kinds, works,
                      exists (select from run_flags f join placements p using (run_id)
                              where f.run_id = any(runs_of(p_workloads)) and f.shared and p.gpu_uuid is not null)),
           best_of(titles, throughputs, throughput_texts, 1, works), unfinished(runs_of(p_workloads))
    from given
$$;
