-- Texts and titles of notices and reasons, and the words that they are made of.

-- Return the first six entries of a list, and the number of the rest.
create or replace function bench_internal.some_of(p_words text[]) returns text language sql immutable as $$
    select array_to_string(p_words[:6], ', ')
           || case when cardinality(p_words) > 6 then format(' and %s more', cardinality(p_words) - 6) else '' end
$$;

-- Return the entries of a JSON list, joined.
create or replace function bench_internal.notice_list(p_words jsonb, p_joint text default ', ') returns text language sql immutable as $$
    select string_agg(word, p_joint order by nth) from jsonb_array_elements_text(p_words) with ordinality as x (word, nth)
$$;

-- Return a share as a percentage: `40%`.
create or replace function bench_internal.notice_percent(p_share numeric, p_digits integer default 0) returns text language sql immutable as $$
    select round(100 * p_share, p_digits) || '%'
$$;

-- Return the range of a list of shares: `99%`, `40% to 99%`; null for an empty list.
create or replace function bench_internal.notice_percents(p_shares jsonb, p_digits integer default 0) returns text language sql immutable as $$
    select concat_ws(' to ', nullif(notice_percent(min(share), p_digits), notice_percent(max(share), p_digits)),
                     notice_percent(max(share), p_digits))
    from (select value::numeric as share from jsonb_array_elements_text(p_shares)) x
    having count(share) > 0
$$;

-- Return a number with two significant digits.
create or replace function bench_internal.notice_number(p_number numeric) returns text language sql immutable as $$
    select case when p_number > 0 then trim_scale(round(p_number, 1 - floor(log(p_number))::integer)) else p_number end::text
$$;

-- Return cores in use: `1.8 of 2 cores`.
create or replace function bench_internal.notice_cores(p_used numeric, p_total numeric) returns text language sql immutable as $$
    select round(p_used, 1) || ' of ' || trim_scale(round(p_total, 1)) || ' cores'
$$;

-- Return the cores up to which services of hypergauge cost a run nothing that counts: one stack at work uses fewer, beside all runs
-- alike.
create or replace function bench_internal.light_services() returns float8 language sql immutable as $$
    select 0.3::float8
$$;

-- Return the cores of services that count as those of other programs.
create or replace function bench_internal.busy_services(p_services float8) returns float8 language sql immutable as $$
    select greatest(p_services - light_services(), 0)
$$;

-- Return what other programs and busy services of hypergauge used: `other programs used 1.8 of 2 cores`.
create or replace function bench_internal.notice_used(p_used numeric, p_services numeric, p_total numeric) returns text
language sql immutable as $$
    select case when busy_services(p_services::float8) = 0 then 'other programs used ' || notice_cores(p_used, p_total)
                when coalesce(p_used, 0) < 0.1 * p_total then 'services of hypergauge used ' || notice_cores(p_services, p_total)
                else format('other programs used %s, services of hypergauge %s', notice_cores(p_used, p_total), round(p_services, 1)) end
$$;

-- Return that programs on the `host` or the `gpu` were not measured, as a clause; null where they were.
create or replace function bench_internal.unmeasured_text(p_where text[]) returns text language sql immutable as $$
    select case when 'host' = any(p_where) and 'gpu' = any(p_where) then 'other programs on the host and its GPUs were not measured'
                when 'host' = any(p_where) then 'other programs on the host were not measured'
                when 'gpu' = any(p_where) then 'other processes on the GPUs were not measured' end
$$;

-- Return whether other processes used GPUs for enough of the time to name them as the cause of a delay.
create or replace function bench_internal.gpus_disturbed(p_share float8) returns boolean language sql immutable as $$
    select p_share >= 0.1
$$;

-- Return the range of a list of seconds: `1 s`, `1 to 5 s`; null for an empty list.
create or replace function bench_internal.notice_intervals(p_seconds jsonb) returns text language sql immutable as $$
    select concat_ws(' to ', nullif(notice_number(min(seconds)), notice_number(max(seconds))),
                     notice_number(max(seconds))) || ' s'
    from (select value::numeric as seconds from jsonb_array_elements_text(p_seconds)) x
    having count(seconds) > 0
$$;

-- Return a duration: in seconds below two minutes, else in hours, minutes and seconds.
create or replace function bench_internal.notice_duration(p_seconds numeric) returns text language sql immutable as $$
    select case when p_seconds < 120 then round(p_seconds) || ' s' else make_interval(secs => round(p_seconds)::float8)::text end
$$;

-- Return the duration of a run as tables show it: `20 ms`, `4.2 s`, `3:07`, `2:03:07`.
create or replace function bench_internal.notice_run_time(p_seconds numeric) returns text language sql immutable as $$
    select case when p_seconds < 0.95 then round(1000 * p_seconds) || ' ms'
                when p_seconds < 60 then round(p_seconds, 1) || ' s'
                else concat(nullif(div(minutes, 60), 0) || ':',
                            case when minutes < 60 then minutes::text else lpad(mod(minutes, 60)::text, 2, '0') end,
                            ':', lpad(mod(round(p_seconds), 60)::text, 2, '0')) end
    from (select div(round(p_seconds), 60) as minutes) x
$$;

-- Return a bound of time exactly: `0.5 s`, `00:02:30`.
create or replace function bench_internal.notice_bound(p_seconds numeric) returns text language sql immutable as $$
    select case when p_seconds < 120 then trim_scale(p_seconds) || ' s' else make_interval(secs => p_seconds::float8)::text end
$$;

-- Return runs, each with its share: `20/1/1 (40%)`.
create or replace function bench_internal.notice_runs(p_runs text[], p_shares jsonb, p_digits integer default 0, p_least numeric default 0)
returns text language sql immutable as $$
    select some_of(array_agg(format('%s (%s)', run, notice_percent(greatest(share::numeric, p_least), p_digits)) order by nth))
    from rows from (unnest(p_runs), jsonb_array_elements_text(p_shares)) with ordinality as x (run, share, nth)
$$;

-- Return runs by the first six of their intervals: `every 1 s in 20/1/1, 20/1/2; every 5 s in 20/1/3`.
create or replace function bench_internal.notice_every(p_runs text[], p_seconds jsonb) returns text language sql immutable as $$
    select string_agg(format('every %s s in %s', notice_number(seconds), runs), '; ' order by seconds) filter (where nth <= 6)
           || case when count(*) > 6 then format('; %s more intervals', count(*) - 6) else '' end
    from (select seconds::numeric, some_of(array_agg(run order by nth)) as runs, row_number() over (order by seconds::numeric) as nth
          from rows from (unnest(p_runs), jsonb_array_elements_text(p_seconds)) with ordinality as x (run, seconds, nth)
          group by seconds::numeric) each
$$;

-- Return the first six entries of a JSON list, and the number of the rest.
create or replace function bench_internal.notice_some(p_words jsonb) returns text language sql immutable as $$
    select some_of(array(select jsonb_array_elements_text(p_words)))
$$;

-- Return the exporters, interval, coverage and overhead of runs, as far as they are known.
create or replace function bench_internal.notice_measured(p_values jsonb) returns text language sql immutable as $$
    select concat('measured ', case when not p_values ? 'intervals' then 'every ' || notice_intervals(p_values -> 'interval_seconds') || ' ' end,
                  'by ' || coalesce(regexp_replace(
                      (select string_agg(concat(exporter, ' every ' || notice_number((p_values -> 'intervals' ->> exporter)::numeric) || ' s'), ', ' order by nth)
                       from jsonb_array_elements_text(p_values -> 'exporters') with ordinality as x (exporter, nth)),
                      ', ([^,]+)$', ' and \1'), 'no exporter'),
                  ', ' || notice_percents(p_values -> 'coverage') || ' of the time',
                  '; the exporters took ' || notice_percents(p_values -> 'overhead', 1) || ' of the host''s cores', '.')
$$;

-- Return the first four changes of a run's neighbours: `30.0 s (20/1/2 ended, finished)`.
create or replace function bench_internal.notice_changes(p_changes jsonb) returns text language sql immutable as $$
    select string_agg(format('%s s (%s)', round((change ->> 'at')::numeric, 1),
                             concat_ws(', ', format('%s %s', change ->> 'run', change ->> 'what'), change ->> 'status')),
                      ', ' order by nth) filter (where nth <= 4)
           || case when count(*) > 4 then format(' and %s more', count(*) - 4) else '' end
    from jsonb_array_elements(p_changes) with ordinality as x (change, nth)
$$;

-- Return a set with its workloads, most of its parts left out if there are many: `a + b (20/1, 20/2)`, `a + b and 6 more (20/1)`.
create or replace function bench_internal.notice_set(p_values jsonb) returns text language sql immutable as $$
    select format('%s (%s)', case when cardinality(parts) <= 3 then p_values ->> 'set'
                                  else format('%s and %s more', array_to_string(parts[:2], ' + '), cardinality(parts) - 2) end,
                  notice_list(p_values -> 'workloads'))
    from (select string_to_array(p_values ->> 'set', ' + ') as parts) x
$$;

-- Return the first eight members of sets: `a in a + b (57%)`.
create or replace function bench_internal.notice_members(p_members jsonb) returns text language sql immutable as $$
    select string_agg(format('%s in %s (%s)', member ->> 'configuration', member ->> 'set',
                             notice_percent((member ->> 'share')::numeric)), ', ' order by nth) filter (where nth <= 8)
           || case when count(*) > 8 then format(' and %s more', count(*) - 8) else '' end
    from jsonb_array_elements(p_members) with ordinality as x (member, nth)
$$;

-- Return a description of the values of a scope.
create or replace function bench_internal.notice_scope(p_scope text) returns text language sql immutable as $$
    select case p_scope when 'process' then 'values of the run itself'
                        when 'instance' then 'values of GPUs or MIG instances that the run had to itself'
                        when 'device' then 'values of GPUs that other runs used as well'
                        when 'host' then 'values of the whole host' end
$$;

-- Return an axis: `steps`, `phase warm up`.
create or replace function bench_internal.notice_axis(p_align text) returns text language sql immutable as $$
    select case when p_align ^@ 'phase:' then 'phase ' || substr(p_align, 7) else p_align || 's' end
$$;

-- Return the text of a reason, which is a part of a notice's text; null for an unknown code.
create or replace function bench_internal.notice_reason(p_values jsonb) returns text language sql immutable as $$
    select case p_values ->> 'reason'
        when 'no_axis' then 'it has no ' || notice_axis(p_values ->> 'align')
        when 'raw_samples_deleted' then 'its raw samples are deleted'
        when 'outside_part' then 'it has no such part'
        when 'gpus_shared_in_part' then format('it shares only some of its GPUs with %s', p_values ->> 'other')
        when 'value_not_measured' then 'it was not measured'
        when 'value_not_logged' then 'it was not logged'
        when 'value_not_finite' then 'its last value was NaN or infinite'
        when 'no_own_energy' then 'it has no measured energy of its own'
        when 'no_energy_curve' then 'its energy over time is unknown'
        when 'gpus_simulated' then 'its GPUs are simulated, which --simulated counts'
        when 'no_price' then format('%s has no price for the %s %s, but for %s', p_values ->> 'file',
                                    case p_values ->> 'kind' when 'gpu' then 'GPU' else p_values ->> 'kind' end,
                                    p_values ->> 'name', notice_list(p_values -> 'priced'))
        when 'no_peak_flops' then format('the peak FLOPS of %s are unknown; `peak_flops` in bench.toml gives them',
                                         coalesce(p_values ->> 'model', 'its host'))
        when 'target_missed' then
            concat('it never reached ', p_values ->> 'target',
                   ' (' || to_char((p_values ->> 'best')::numeric, '9.999EEEE')::float8 || ' at best)')
        when 'metric_not_logged' then format('it has not logged %s', p_values ->> 'key')
        when 'not_simultaneous' then
            'its rows'' latest attempts did not run at the same time, but '
            || (select string_agg(notice_some(pass), ', then ' order by nth)
                from jsonb_array_elements(p_values -> 'passes') with ordinality as x (pass, nth))
        when 'run_running' then format('%s is running', p_values ->> 'run')
        when 'run_ended_early' then
            format('%s %s after %s', p_values ->> 'run',
                   case p_values ->> 'status' when 'timeout' then 'ran into its time limit' else p_values ->> 'status' end,
                   notice_run_time((p_values ->> 'seconds')::numeric))
        when 'host_used_by_others' then format('%s ran on the host of %s, too', notice_some(p_values -> 'others'), p_values ->> 'run')
        when 'gpu_used_by_others' then format('%s used the GPU of %s, too', notice_some(p_values -> 'others'), p_values ->> 'run')
        when 'other_programs' then
            case when gpus_disturbed((p_values ->> 'gpu_share')::float8) then format('other programs disturbed %s: they used its GPUs', p_values ->> 'run')
                 when p_values ->> 'used' is null
                 then format('%s beside %s, and may have disturbed it', unmeasured_text('{host}'), p_values ->> 'run')
                 when busy_services((p_values ->> 'services')::float8) > 0
                 then format('other programs disturbed %s: %s', p_values ->> 'run',
                             notice_used((p_values ->> 'used')::numeric, (p_values ->> 'services')::numeric, (p_values ->> 'cores')::numeric))
                 else format('other programs disturbed %s: %s', p_values ->> 'run',
                             notice_cores((p_values ->> 'used')::numeric, (p_values ->> 'cores')::numeric)) end
        when 'never_overlapped' then 'the runs never overlapped all at once'
        end
$$;

-- Return the text of a notice; null for an unknown code.
create or replace function bench_dashboard.notice_text(p_code text, p_runs text[] default '{}', p_values jsonb default '{}')
returns text language sql immutable as $$
    select case
        when p_values ? 'metrics' then notice_list(p_values -> 'metrics') || ': ' || sentence
        else upper(left(sentence, 1)) || substr(sentence, 2) end
    from (select case p_code
        when 'no_runs' then
            'there is no run yet: `bench demo` makes some; `bench run -- COMMAND` or `bench schedule FILE` starts yours.'
        when 'no_runs_selected' then 'no run is chosen: choose an experiment, a workload and runs above.'
        when 'replica_behind' then format('the replica is %s behind: what is running here may have ended since.',
                                          notice_duration((p_values ->> 'seconds')::numeric))
        when 'measured' then notice_measured(p_values)
        when 'measured_differently' then format('%s: %s', some_of(p_runs), notice_measured(p_values))
        when 'measuring_costs' then
            format('%s: measuring makes a training at most %s slower on this host (95%% sure, by %s repetitions of %s).',
                   some_of(p_runs), notice_percent((p_values ->> 'most')::numeric, 1), p_values ->> 'repetitions',
                   coalesce(nullif(p_values ->> 'command', ''), 'another user''s training'))
        when 'part' then
            format('only a part of each run: %s.',
                   concat_ws(', ', 'phase ' || (p_values ->> 'phase'),
                             nullif(concat_ws(' ', 'from ' || notice_bound((p_values ->> 'from_seconds')::numeric),
                                              'to ' || notice_bound((p_values ->> 'to_seconds')::numeric)), '')))
        when 'outside_part' then format('no such part, and so left out: %s.', some_of(p_runs))
        when 'not_aligned' then format('%s is left out: %s.', some_of(p_runs), notice_reason(p_values))
        when 'no_axis' then
            format('no %s, and so no curve: %s.', notice_axis(p_values ->> 'align'), some_of(p_runs))
        when 'runs_left_out' then format('only %s of %s runs are drawn. Left out: %s. Choose fewer runs.',
                                         p_values ->> 'drawn', p_values ->> 'total', some_of(p_runs))
        when 'workloads_left_out' then format('only %s of %s workloads are drawn. Left out: %s. Choose fewer workloads.',
                                              p_values ->> 'drawn', p_values ->> 'total', notice_some(p_values -> 'workloads'))
        when 'bands_left_out' then format('the ranges of the first %s workloads are drawn, of the others the means alone.',
                                          p_values ->> 'drawn')
        when 'mean_of_fewer' then
            format('some runs of %s ended before the others: from then on a mean is over fewer runs.', notice_some(p_values -> 'workloads'))
        when 'devices_left_out' then format('only %s of %s devices are drawn. Left out: %s. Choose fewer hosts above.',
                                            p_values ->> 'drawn', p_values ->> 'total', notice_some(p_values -> 'devices'))
        when 'gpus_left_out' then format('only %s of %s GPUs of %s are drawn, the first by their ids.',
                                         p_values ->> 'drawn', p_values ->> 'total', some_of(p_runs))
        when 'without_gpu' then format('left out, since they used no GPU: %s.', some_of(p_runs))
        when 'divided_evenly' then
            format('not their own: the values of shared GPUs, divided evenly among their runs, for %s.', some_of(p_runs))
        when 'without_own_values' then format('drawn without height, since nothing measured their part: %s.', some_of(p_runs))
        when 'range_mismatch' then
            format('the charts show %s, the longest run lasts %s: "Fit" shows all of it.',
                   notice_duration((p_values ->> 'shown_seconds')::numeric),
                   notice_duration((p_values ->> 'longest_seconds')::numeric))
        when 'outside_range' then
            format('%s did not run within the chosen time: "The whole run" above shows it.', some_of(p_runs))
        when 'ended_early' then
            format('%s%s: %s. Totals and curves cover the time until then.', p_values ->> 'status',
                   ' (' || nullif(p_values ->> 'cause', '') || ')', some_of(p_runs))
        when 'partial_process_coverage' then
            format('partial coverage of the processes in %s.', notice_runs(p_runs, p_values -> 'shares'))
        when 'partial_gpu_coverage' then
            format('partial coverage of the GPUs in %s.', notice_runs(p_runs, p_values -> 'shares'))
        when 'missing_metrics' then
            format('%s: no %s: %s.', some_of(p_runs), notice_list(p_values -> 'columns', ' and no '), notice_reason(p_values))
        when 'not_logged' then format('not logged in %s.', some_of(p_runs))
        when 'not_finite' then
            format('NaN or infinite, first at %s.',
                   (select some_of(array_agg(format('step %s of %s', step, run) order by nth))
                    from rows from (unnest(p_runs), jsonb_array_elements_text(p_values -> 'steps')) with ordinality as x (run, step, nth)))
        when 'not_measured' then format('not measured in %s.', some_of(p_runs))
        when 'scopes_differ' then format('%s in %s.', notice_scope(p_values ->> 'scope'), some_of(p_runs))
        when 'wide_scope' then notice_scope(p_values ->> 'scope') || '.'
        when 'sources_differ' then format('read from %s in %s.', notice_list(p_values -> 'sources', ' and '), some_of(p_runs))
        when 'intervals_differ' then format('read %s.', notice_every(p_runs, p_values -> 'interval_seconds'))
        when 'partial_coverage' then
            format('partial coverage in %s.', notice_runs(p_runs, p_values -> 'shares'))
        when 'few_samples' then
            format('a mean of few readings in %s.', (select some_of(array_agg(format('%s (%s)', run, n) order by nth))
                from rows from (unnest(p_runs), jsonb_array_elements_text(p_values -> 'samples')) with ordinality as x (run, n, nth)))
        when 'utilization_overstates' then
            format('the share of time in which any kernel ran; %s, measured in %s, is how busy the GPU was.', p_values ->> 'better', some_of(p_runs))
        when 'throttled' then format('GPU clocks were throttled for a part of the time in %s.',
                                     notice_runs(p_runs, p_values -> 'shares', 0, 0.01))
        when 'exporter_overhead' then
            format('the exporters took more than 1%% of the host''s cores in %s.', notice_runs(p_runs, p_values -> 'shares', 1))
        when 'shared_resource' then format('%s shared the GPU or host with other runs.', some_of(p_runs))
        when 'other_programs' then
            format('other programs used the cores of %s: stop them and repeat the runs; `bench schedule --quiet-host` waits.',
                   (select some_of(array_agg(format('%s (%s)', run,
                               case when busy_services(services::float8) > 0 then notice_used(other::numeric, services::numeric, total::numeric)
                                    else notice_cores(other::numeric, total::numeric) end) order by nth))
                    from rows from (unnest(p_runs), jsonb_array_elements_text(p_values -> 'other_cores'),
                                    jsonb_array_elements_text(p_values -> 'service_cores'),
                                    jsonb_array_elements_text(p_values -> 'cores')) with ordinality as x (run, other, services, total, nth)))
        when 'other_gpu_processes' then
            format('other processes used the GPUs of %s: end them and repeat the runs.', notice_runs(p_runs, p_values -> 'shares'))
        when 'others_unmeasured' then
            format('%s beside %s, and may have changed the times%s.', unmeasured_text(array[p_values ->> 'where']), some_of(p_runs),
                   ': repeat them with ' || notice_list(p_values -> 'exporters', ' and ') || ' in the column Listeners')
        when 'energy_divided' then
            format('the GPU energy of %s is divided evenly: the driver does not report their shares, as under MPS.', some_of(p_runs))
        when 'idle_power_unknown' then
            format('the energy of %s is too small: its GPU or host was never seen idle. Leave it idle for a minute before the run.',
                   some_of(p_runs))
        when 'simulated_gpu' then format('* %s ran on simulated GPUs: their GPU values are not real.', some_of(p_runs))
        when 'profiled' then format('◆ %s ran under a profiler (%s), which slows a run down.', some_of(p_runs),
                                    notice_list(p_values -> 'profilers', ' and '))
        when 'watch_failed' then format('the training of %s was not watched to its end: %s.', some_of(p_runs),
                                        notice_list(p_values -> 'problems', '; '))
        when 'watch_gaps' then format('not recorded of the training of %s: %s.', some_of(p_runs),
                                      notice_list(p_values -> 'gaps', '; '))
        when 'neighbours_changed' then
            format('%s: neighbours changed after %s.', some_of(p_runs), notice_changes(p_values -> 'changes'))
        when 'more_neighbours_changed' then format('the neighbours of %s more runs changed: %s; --json has when.',
                                                   cardinality(p_runs), some_of(p_runs))
        when 'never_alone' then format('unknown cost of %s for %s, which never ran alone.', notice_set(p_values),
                                       notice_some(p_values -> 'configurations'))
        when 'other_work' then
            format('%s made %s %s in %s, and %s alone (%s), so its whole runs are not compared; --metric %s_time compares each.',
                   p_values ->> 'configuration', round((p_values ->> 'beside')::numeric), p_values ->> 'work', notice_set(p_values),
                   round((p_values ->> 'alone')::numeric), some_of(p_runs), rtrim(p_values ->> 'work', 's'))
        when 'not_paced' then format('no %s are known of %s in %s, or none alone.', p_values ->> 'paced_by',
                                     p_values ->> 'configuration', notice_set(p_values))
        when 'alone_on_part' then format('in %s: %s ran alone on %s only, not on the whole GPU.', notice_set(p_values),
                                         p_values ->> 'configuration', p_values ->> 'collocation')
        when 'faster_than_alone' then
            format('%s took %sx as long in %s as alone, which sharing cannot explain: something slowed the runs alone. Repeat them.',
                   p_values ->> 'configuration', round((p_values ->> 'ratio')::numeric, 2), notice_set(p_values))
        when 'one_repetition' then format('no interval for %s, which has one repetition.', notice_set(p_values))
        when 'one_repetition_alone' then format('no interval for %s: one repetition alone of %s.', notice_set(p_values),
                                                notice_list(p_values -> 'configurations'))
        when 'diluted' then
            format('too small, since over the whole run, while the others ran for a part of it: %s. For runs that track steps only '
                   'that part counts.', notice_members(p_values -> 'members'))
        when 'not_compared' then
            format(case when cardinality(p_runs) = 1 then 'left out: %2$s.' else 'left out: %1$s (%2$s).' end,
                   some_of(p_runs), (select string_agg(notice_reason(reason), '; ' order by nth)
                                     from jsonb_array_elements(p_values -> 'reasons') with ordinality as x (reason, nth)))
        when 'running' then format('still running, with values as of now: %s.', some_of(p_runs))
        when 'not_started' then format('not started: %s.', some_of(p_runs))
        end as sentence) x
$$;

-- Return the title of a notice, which lists of notices show instead of their texts; null for an unknown code.
create or replace function bench_dashboard.notice_title(p_code text) returns text language sql immutable as $$
    select case p_code
        when 'no_runs' then 'no runs'
        when 'no_runs_selected' then 'no run chosen'
        when 'replica_behind' then 'a replica that is behind'
        when 'measured' then 'how the runs were measured'
        when 'measured_differently' then 'runs measured differently'
        when 'measuring_costs' then 'what measuring costs'
        when 'part' then 'a part of each run'
        when 'outside_part' then 'runs without the part'
        when 'not_aligned' then 'runs without the common part'
        when 'no_axis' then 'runs without the axis'
        when 'runs_left_out' then 'runs left out'
        when 'workloads_left_out' then 'workloads left out'
        when 'bands_left_out' then 'ranges left out'
        when 'mean_of_fewer' then 'means over fewer runs near the end'
        when 'devices_left_out' then 'devices left out'
        when 'gpus_left_out' then 'GPUs left out'
        when 'without_gpu' then 'runs without a GPU'
        when 'divided_evenly' then 'shared GPUs divided evenly'
        when 'without_own_values' then 'runs without values of their own'
        when 'range_mismatch' then 'a time range that does not fit'
        when 'outside_range' then 'runs outside the time range'
        when 'ended_early' then 'runs that did not finish'
        when 'partial_process_coverage' then 'gaps in the data of processes'
        when 'partial_gpu_coverage' then 'gaps in the data of GPUs'
        when 'missing_metrics' then 'missing metrics'
        when 'not_logged' then 'runs that did not log the metric'
        when 'not_finite' then 'values that were NaN or infinite'
        when 'not_measured' then 'runs without the metric'
        when 'scopes_differ' then 'own and shared values mixed'
        when 'wide_scope' then 'values of shared GPUs or hosts'
        when 'sources_differ' then 'different sources'
        when 'intervals_differ' then 'different intervals'
        when 'partial_coverage' then 'gaps in the data'
        when 'few_samples' then 'means of few readings'
        when 'utilization_overstates' then 'GPU utilization overstated'
        when 'throttled' then 'throttled GPUs'
        when 'exporter_overhead' then 'overhead of exporters'
        when 'shared_resource' then 'shared GPUs or hosts'
        when 'other_programs' then 'other programs on the cores'
        when 'other_gpu_processes' then 'other processes on the GPUs'
        when 'others_unmeasured' then 'other programs not measured'
        when 'energy_divided' then 'energy divided evenly'
        when 'idle_power_unknown' then 'unknown idle power'
        when 'simulated_gpu' then 'simulated GPUs (*)'
        when 'profiled' then 'profiled runs (◆)'
        when 'watch_failed' then 'trainings not watched to the end'
        when 'watch_gaps' then 'trainings not recorded in all'
        when 'neighbours_changed' then 'changing neighbours'
        when 'more_neighbours_changed' then 'changing neighbours'
        when 'never_alone' then 'configurations that never ran alone'
        when 'other_work' then 'configurations that did other work alone'
        when 'not_paced' then 'configurations without steps or epochs'
        when 'alone_on_part' then 'configurations alone on a part of a GPU only'
        when 'faster_than_alone' then 'runs faster beside others than alone'
        when 'one_repetition' then 'one repetition'
        when 'one_repetition_alone' then 'one repetition alone'
        when 'diluted' then 'slowdowns that are too small'
        when 'not_compared' then 'repetitions left out'
        when 'running' then 'running runs'
        when 'not_started' then 'runs that have not started'
        end
$$;
