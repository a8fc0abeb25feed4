-- What people choose by on dashboards: names of workloads and runs, and the quantities that runs have.

-- A workload as people read it: 20/1, and what ran in it.
create or replace function workload_title(w workloads) returns text language sql stable as $$
    select concat_ws(' ', concat_ws('/', w.experiment_id, w.workload),
                     (select string_agg(name, ', ' order by first)
                      from (select name, min(position) as first from runs
                            where workload_id = w.workload_id and name <> '' group by name
                            order by first limit 3) names))
$$;

-- A run as people read it: 20/1/3 and its name, * where its GPUs are simulated, ◆ where it was profiled.
create or replace function run_title(w workloads, r runs) returns text language sql stable as $$
    select concat_ws(' ', run_label(w, r), nullif(r.name, ''), case when r.simulated then '*' end,
                     case when r.profilers <> '' then '◆' end)
$$;

-- The quantities that any of these runs has series of, those of the runs themselves before their hosts'. From the
-- dimension tables alone.
create or replace function run_quantities(p_runs text[])
returns table (quantity text, unit text) language sql stable as $$
    select s.quantity, coalesce(min(m.unit), '')
    from (select distinct place_id, scope from run_sets where run_id = any(p_runs)) rs
    join series s using (place_id) left join metrics m using (metric_id)
    group by s.quantity
    order by min(array_position(array['process', 'instance', 'device', 'host'], rs.scope)), min(m.metric_id) nulls last,
             s.quantity
$$;
