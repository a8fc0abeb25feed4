-- Firings of rules and their actions, for display.

-- Return the actions on a firing and their outcomes; null without actions.
create or replace function bench_internal.firing_done(p_run text, p_rule text, p_started timestamptz) returns text
language sql stable as $$
    select string_agg(
        action || ': ' || coalesce(outcome || coalesce(' (' || nullif(left(detail, 200), '') || ')', ''),
                                   case when begun_at is null then 'to be done' else 'begun' end),
        '; ' order by asked_at, action)
    from rule_actions where run_id = p_run and rule = p_rule and started_at = p_started
$$;

-- Return the firings of rules as annotations on the common axis; of few runs only, since they overlap.
create or replace function bench_dashboard.chart_firings(p_runs text[], p_align text default 'time', p_most integer default 4)
returns table ("time" timestamptz, timeend timestamptz, text text, tags text) language sql stable as $$
    select timestamptz '1970-01-01 00:00:00+00' + (f.started_at - o.zero),
           timestamptz '1970-01-01 00:00:00+00' + (coalesce(f.ended_at, r.ended_at, now()) - o.zero),
           case when cardinality(p_runs) > 1 then run_title(w, r) || ': ' else '' end || f.rule, f.severity
    from runs r join workloads w using (workload_id) join rule_firings f using (run_id)
    cross join lateral (select axis_origin(r.run_id, p_align) as zero offset 0) o
    where r.run_id = any(p_runs) and cardinality(p_runs) <= p_most and o.zero is not null
    order by 1
$$;
