-- Building blocks of rules on the health of a training: reductions of tensors, their streaks, and losses.

-- Return the watched steps of a run's collections, a row per set and step with the arrays as stored: a rule unnests those that it
-- needs. Where the sets have more than `p_most` elements in all, only every nth step is returned, and the newest. `watched`
-- counts the watched steps of a set, returned or not; `place` counts the returned ones. `following` is the time of the next
-- returned step, null at the newest.
--
-- It is one query without settings, so that the planner inlines it, and arrays that a rule does not read stay unread.
create or replace function rule_tensors(
    p_run text, p_start timestamptz, p_stop timestamptz, p_collections text[], p_most float8 default 500000
) returns table (tensor_set text, collection text, names text[], sizes bigint[], place bigint, watched bigint, step bigint,
                 "time" timestamptz, following timestamptz, pid integer, norm float8, low real[], high real[], mean real[],
                 std real[], l1 real[], l2 real[], zeros real[], nonfinite real[], saturated real[], update_ratio real[])
language sql stable rows 100 as $$
    select tensor_set, collection, names, sizes,
           row_number() over line, watched, step, time, lead(time) over line, pid, norm, min, max, mean, std, l1, l2, zeros,
           nonfinite, saturated, update_ratio
    from (
        select s.tensor_set, s.collection, s.names, coalesce(v.sizes, s.sizes) as sizes, v.step, v.time, v.pid, v.norm, v.min,
               v.max, v.mean, v.std, v.l1, v.l2, v.zeros, v.nonfinite, v.saturated, v.update_ratio,
               row_number() over (partition by s.tensor_set order by v.step, v.time) as watched,
               count(*) over (partition by s.tensor_set) as last,
               ceil(sum(cardinality(s.names)) over () / p_most)::bigint as nth
        from tensor_sets s
        join tensor_steps v on v.run_id = s.run_id and v.tensor_set = s.tensor_set
        where s.run_id = p_run and s.collection = any(p_collections) and v.time >= p_start and v.time < p_stop
    ) x
    where (watched - 1) % greatest(nth, 1) = 0 or watched = last
    window line as (partition by tensor_set order by watched)
$$;

-- Return the intervals in which tensors were found for at least `p_patience` watched steps in a row. Where few steps are watched,
-- three in a row are enough if they extend over 20 steps of the training for each of these. Each finding has its set, and the
-- columns `place`, `watched`, `step`, `time` and `following` of `rule_tensors`. Evidence has at most five of the tensors, their
-- number, the first step, and the largest value as `p_label`: with `p_sign` -1 the smallest. A tensor that was found at the newest
-- step of its set is still open; a step of another set does not end it.
create or replace function rule_streaks(
    p_patience float8, p_label text, p_sign float8, p_sets text[], p_names text[], p_places bigint[], p_watched bigint[],
    p_steps bigint[], p_times timestamptz[], p_following timestamptz[], p_values float8[]
) returns table (started_at timestamptz, ended_at timestamptz, evidence jsonb) language sql immutable as $$
    with streaks as (
        select name, min(step) as step, min(time) as begins, max(p_sign * value) as value,
               case when count(following) = count(*) then max(time) end as ends
        from (select *, place - row_number() over (partition by tensor_set, name order by place) as part
              from unnest(p_sets, p_names, p_places, p_watched, p_steps, p_times, p_following, p_values)
                  as f (tensor_set, name, place, watched, step, time, following, value)) found
        group by tensor_set, name, part
        having max(watched) - min(watched) + 1 >= p_patience or count(*) >= 3 and max(step) - min(step) >= 20 * p_patience
    ), intervals as (
        select lower(piece) as begins, upper(piece) as ends
        from (select unnest(range_agg(tstzrange(begins, ends, '[]'))) as piece from streaks) x
    ), tensors as (
        select i.begins, i.ends, s.name, min(s.step) as step, max(s.value) as value
        from intervals i join streaks s on s.begins >= i.begins and (i.ends is null or s.begins <= i.ends)
        group by i.begins, i.ends, s.name
    )
    select begins, ends,
           jsonb_build_object('tensors', to_jsonb((array_agg(name order by value desc nulls first, name))[1:5]),
                              'count', count(*), 'step', min(step))
           || case when max(value) is null then '{}' else jsonb_build_object(p_label, p_sign * max(value)) end
    from tensors group by begins, ends
$$;

-- Return the keys of a run's logged metrics. It steps from key to key: a run may have millions of values.
create or replace function bench_internal.logged_keys(p_run text) returns setof text language sql stable rows 20 as $$
    with recursive keys as (
        select min(key) as key from software_metrics where run_id = p_run
        union all
        select (select min(m.key) from software_metrics m where m.run_id = p_run and m.key > keys.key)
        from keys where keys.key is not null
    )
    select key from keys where key is not null
$$;

-- Return the number of a tensor set's model in its process: 3 of `7f-c0ffee-3-14`; 1 where the client names none.
create or replace function bench_internal.model_of(p_set text) returns integer language sql immutable as $$
    select coalesce(substring(p_set from '^[^-]+-[^-]+-([0-9]{1,9})-[^-]+$')::integer, 1)
$$;

-- Return the losses of a run: means of the tensor `loss` between watched steps, and logged metrics such as `loss`, `train_loss`,
-- `val_loss` or `eval/loss`. Losses of a part, such as `g_loss` or `kl_loss`, do not count. Of each kind, train or validation, the
-- series that a rule follows is `preferred`: the tensor, else the metric with the most points. A tensor's series is that of its name
-- in a process, whatever set it is in. Of it, each `model` is a training of its own, such as a fold. A series of more than 5000
-- points becomes means of equal numbers of points. `nonfinite` tells of a value that is NaN, infinite, or too large for a real.
create or replace function rule_losses(p_run text, p_start timestamptz, p_stop timestamptz)
returns table (kind text, series text, model integer, preferred boolean, step bigint, "time" timestamptz, value float8, nonfinite boolean)
language sql stable as $$
    with named as (
        select key, lower(key) ~ '(^|[/_.: -])(val|valid|validation|eval|evaluation|test|dev)([/_.: -]|$)' as validation
        from bench_internal.logged_keys(p_run) as keys (key)
        where lower(key) ~ '^((train|training|val|valid|validation|eval|evaluation|test|dev|epoch|step|batch)[/_.: -]+)*loss([/_.: -]+(train|training|val|valid|validation|eval|evaluation|test|dev|epoch|step|batch))*$'
    ), points as (
        select n.validation, n.key as series, 1 as model, 0 as source, m.step, m.time, m.value, m.value is null as nonfinite
        from named n join software_metrics m on m.run_id = p_run and m.key = n.key
        where m.time >= p_start and m.time < p_stop
        union all
        select t.name ~* '(^|[/_.: -])(val|valid|validation|eval|evaluation|test|dev)([/_.: -]|$)', concat(t.name, ' ' || v.pid),
               bench_internal.model_of(s.tensor_set), 1, v.step, v.time, t.mean::float8, coalesce(t.nonfinite > 0, false) or t.mean is null
        from tensor_sets s
        join tensor_steps v on v.run_id = s.run_id and v.tensor_set = s.tensor_set
        cross join lateral unnest(s.names, v.mean, v.nonfinite) as t (name, mean, nonfinite)
        where s.run_id = p_run and s.collection = 'losses' and v.time >= p_start and v.time < p_stop
    ), counted as (
        select *, count(*) over (partition by validation, source, series) as n,
               row_number() over (partition by validation, source, series, model order by time, step) - 1 as number
        from points
    ), parts as (
        select validation, source, series, model, n, max(step) as step, max(time) as time, avg(value) as value,
               bool_or(nonfinite) as nonfinite
        from counted group by validation, source, series, model, n, number / ceil(n / 5000.0)::bigint
    )
    select case when validation then 'validation' else 'train' end, series, model,
           (source, series) = (first_value(source) over line, first_value(series) over line), step, time, value, nonfinite
    from parts window line as (partition by validation order by source desc, n desc, series)
$$;

-- Return the evaluations of a run: the model and the validation loss of each, the mean of the model's training losses since the one
-- before, and the time of the next one of any model, null at the newest. `number` counts those of a model. Losses that are not
-- finite do not count.
create or replace function rule_evaluations(p_run text, p_stop timestamptz)
returns table (model integer, number bigint, step bigint, "time" timestamptz, value float8, train float8, following timestamptz)
language sql stable as $$
    select model, number, step, time, value, train, lead(time) over (order by time)
    from (select model, number, max(step) filter (where kind = 'validation') as step,
                 max(time) filter (where kind = 'validation') as time,
                 max(value) filter (where kind = 'validation') as value, avg(value) filter (where kind = 'train') as train
          from (select *, 1 + count(*) filter (where kind = 'validation')
                              over (partition by model order by time, kind, step
                                    rows between unbounded preceding and 1 preceding) as number
                from rule_losses(p_run, '-infinity', p_stop) where preferred and not nonfinite) losses
          group by model, number having bool_or(kind = 'validation')) evaluations
$$;

-- Return the time at which a run's training loss has first fallen to a share of its start, as means of up to three points;
-- infinity if it has not. From then on, small gradients and confident outputs are signs of success.
create or replace function rule_learned(p_run text, p_stop timestamptz, p_share float8) returns timestamptz
language sql stable as $$
    select coalesce(min(time) filter (where number > 3 and mean > 0 and mean <= p_share * first or mean = 0), 'infinity')
    from (select time, number, mean, first_value(mean) over (order by number) as first
          from (select time, row_number() over line as number,
                       avg(value) over (order by time, step rows 2 preceding) as mean
                from rule_losses(p_run, '-infinity', p_stop) where kind = 'train' and preferred
                window line as (order by time, step)) x) y
$$;

-- Return which inputs of rules a run has: its collections of tensors, `losses` also where they are logged, `steps` (or epochs),
-- `phases`, and `gpus`. A rule that names some as its needs is not evaluated on a run with none of them.
create or replace function rule_inputs(p_run text) returns text[] language sql stable as $$
    select array(
        select distinct collection from tensor_sets where run_id = p_run
        union
        select 'gpus' where exists (select from run_sets s join places p using (place_id) where s.run_id = p_run and p.kind = 'gpu')
        union
        select 'losses' from runs
        where run_id = p_run and exists (select from bench_internal.logged_keys(p_run) as keys (key) where key ~* 'loss')
        union
        select case kind when 'phase' then 'phases' else 'steps' end
        from unnest(array['phase', 'step', 'epoch']) as kind
        where exists (select from spans where run_id = p_run and spans.kind = kind.kind))
$$;
