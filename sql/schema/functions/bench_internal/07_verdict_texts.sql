-- Texts of verdicts on the conditions of a regression gate. Like a notice, the reason of a verdict is a code with values.

-- Return a relative change with its sign: `+3.1%`.
create or replace function bench_internal.verdict_change(p_share numeric) returns text language sql immutable as $$
    select case when p_share >= 0 then '+' else '' end || notice_percent(p_share, 1)
$$;

-- Return a number of attempts; null stands for more than 200.
create or replace function bench_internal.verdict_attempts(p_attempts text) returns text language sql immutable as $$
    select coalesce(p_attempts, 'more than 200') || ' attempts'
$$;

-- Return a change, with its interval.
create or replace function bench_internal.verdict_changed(p_values jsonb) returns text language sql immutable as $$
    select format('changed by %s (%s%% interval %s to %s)', verdict_change((p_values ->> 'change')::numeric),
                  trim_scale(100 - 200 * (p_values ->> 'alpha')::numeric), verdict_change((p_values ->> 'low')::numeric),
                  verdict_change((p_values ->> 'high')::numeric))
$$;

-- Return a threshold, with the p-value of its test: `above +3%: p = 0.21`.
create or replace function bench_internal.verdict_threshold(p_values jsonb) returns text language sql immutable as $$
    select concat(p_values ->> 'side', ' ', case when threshold >= 0 then '+' end, trim_scale(100 * threshold), '%: ',
                  case when p < 0.0001 then 'p < 0.0001' else 'p = ' || notice_number(p) end)
    from (select (p_values ->> 'threshold')::numeric as threshold, (p_values ->> 'p_adjusted')::numeric as p) x
$$;

-- Return attempts without a value, each with its cause: `20/1/1@2 (failed), 20/1/1@3 (NaN or infinite)`.
create or replace function bench_internal.verdict_missing(p_values jsonb) returns text language sql immutable as $$
    select some_of(array_agg(format('%s (%s)', attempt, case cause when 'not_finite' then 'NaN or infinite'
                                                                   when 'not_measured' then 'not measured' else cause end)
                             order by nth))
    from rows from (jsonb_array_elements_text(p_values -> 'attempts'), jsonb_array_elements_text(p_values -> 'causes'))
         with ordinality as x (attempt, cause, nth)
$$;

-- Return the text of a verdict; null for an unknown code. `p_values` holds the code, the statistics and further values.
create or replace function bench_dashboard.verdict_text(p_values jsonb) returns text language sql immutable as $$
    select (p_values ->> 'row') || ': ' || case p_values ->> 'reason'
        when 'change_shown' then format('%s %s, %s', metric, verdict_changed(p_values), verdict_threshold(p_values))
        when 'change_not_shown' then
            format('%s %s, not shown to be %s; the power for %s is %s', metric, verdict_changed(p_values),
                   verdict_threshold(p_values), verdict_change((p_values ->> 'visible')::numeric), notice_percent(power))
            || case when power >= wanted then ''
                    else format('; a power of %s takes %s each', notice_percent(wanted), verdict_attempts(p_values ->> 'repetitions')) end
        when 'bound_exceeded' then format('%s is %s the bound', mean, p_values ->> 'side')
        when 'bound_kept' then format('%s is not %s the bound', mean, p_values ->> 'side')
        when 'one_attempt' then
            format('nothing can be concluded on %s from one attempt of %s: with the deviation %s, %s each show %s with a power of '
                   '%s (bench schedule --repeat %s)', metric, rows,
                   case when (p_values ->> 'measured')::boolean then 'measured' else 'of 2% assumed' end,
                   verdict_attempts(p_values ->> 'repetitions'), verdict_change((p_values ->> 'visible')::numeric),
                   notice_percent(wanted), coalesce(p_values ->> 'repetitions', 'N'))
        when 'not_measured' then format('no finished attempt of %s has %s', rows, name)
        when 'not_finite' then format('%s is NaN or infinite at last in %s', name, notice_some(p_values -> 'attempts'))
        when 'attempts_missing' then
            format('%s has no value in %s, and the other attempts are no sample of all; repeat them, or name the attempts to compare',
                   name, verdict_missing(p_values))
        when 'not_positive' then format('%s is 0 or less in some attempts, which has no relative change; use a bound', name)
        when 'idle_energy_differs' then format('%s includes idle energy in some attempts only', name)
        when 'divided_energy_differs' then format('%s is an equal part of that of several processes in some attempts only', name)
        when 'scopes_differ' then
            format('%s was measured in the scopes %s; --scope chooses one', name, notice_list(p_values -> 'scopes', ' and '))
        end
    from (select p_values ->> 'metric' as name, (p_values ->> 'power')::numeric as power,
                 (p_values ->> 'wanted_power')::numeric as wanted, notice_list(p_values -> 'rows', ' and ') as rows) x
    cross join lateral (select concat(name, case p_values ->> 'scope' when 'device' then ' of the whole GPU'
                                                                      when 'host' then ' of the host' end) as metric) m
    cross join lateral (select case p_values ->> 'attempts' when '1' then format('%s of its attempt', metric)
                               else format('the mean %s of its %s attempts', metric, p_values ->> 'attempts') end as mean) b
$$;
