-- Changes against a baseline with their intervals, and values as text.

-- Return the 97.5th percentile of Student's t, exact for the degrees of freedom of the table. Between them its logarithm is
-- interpolated over their reciprocal: for integers within 0.03 %, for others within 3 %.
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
-- `hypergauge.insight.sharing.ratio`, whose margin `hypergauge.insight.small_samples` explains. Means come with their sample variances
-- and numbers of values. Null where a mean is not positive.
create or replace function bench_internal.ratio(p_mean float8, p_variance float8, p_count bigint, p_means float8[], p_variances float8[],
                                                p_counts bigint[], out value float8, out low float8, out high float8)
language sql immutable as $$
    with base as (
        select sum(m) as mean from unnest(p_means) m having bool_and(m > 0) and p_mean > 0
    ), samples as (
        select p_variance / nullif(p_mean, 0) ^ 2 as variance, p_count as n, 1.0 / nullif(p_count, 0) as part from base
        union all
        select x.variance / nullif(x.mean, 0) ^ 2, x.n, (x.mean / base.mean) ^ 2 / nullif(x.n, 0)
        from rows from (unnest(p_means), unnest(p_variances), unnest(p_counts)) as x (mean, variance, n) cross join base
    ), spread as (
        select sum(part * variance) as welch, sum(variance * (n - 1)) / nullif(sum(n - 1), 0) * sum(part) as student, sum(n - 1) as freedom,
               case when min(n) = max(n) then 1.8 when min(n) = 2 then 0.75 when min(n) = 3 then 1.15 else 1.45 end as power
        from samples having min(n) > 1
    ), margins as (
        select sqrt(welch) * (1.96 + (select sum((part * variance / nullif(welch, 0)) ^ power * (t_value(n - 1.0) - 1.96)) from samples))
                   as unequal,
               sqrt(student) * t_value(freedom::float8) as equal, welch
        from spread
    )
    select p_mean / base.mean, p_mean / base.mean / width, p_mean / base.mean * width
    from base left join lateral (
        -- The margin of values on both sides of 0 has no bound, but floats have.
        select case when welch = 0 then 1 else exp(least(greatest(unequal, equal), 100)) end as width from margins) x on true
$$;

-- Return the relative change of the mean of repetitions against that of a baseline, 0.1 for 10 % more, with its 95 % interval
-- from two repetitions on; see `ratio`, and `relative_change` for means below 0. Without an interval where only one is below 0. Null
-- where a value is unknown, or the baseline is 0.
create or replace function bench_internal.change(p_mine float8[], p_base float8[], out value float8, out low float8, out high float8)
language sql immutable as $$
    select relative_change(m.mean, b.mean), least(x.low, x.high), greatest(x.low, x.high)
    from (select avg(x) as mean, var_samp(x) as variance, count(x) as n from unnest(p_mine) x having count(x) = count(*)) m
    cross join (select avg(x) as mean, var_samp(x) as variance, count(x) as n from unnest(p_base) x having count(x) = count(*)) b
    cross join lateral (select sign(b.mean) as side) s
    cross join lateral ratio(side * m.mean, m.variance, m.n, array[side * b.mean], array[b.variance], array[b.n]) r
    cross join lateral (select side * (r.low - 1) as low, side * (r.high - 1) as high) x
$$;

-- Return a JSON list of numbers as an array.
create or replace function bench_internal.floats(p_list jsonb) returns float8[] language sql immutable as $$
    select array(select x::float8 from jsonb_array_elements_text(nullif(p_list, 'null')) x)
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

-- Return a duration as text that sorts by length, with tenths below ten minutes: 00:00:04.2, 00:12:07, 167:50:00.
create or replace function bench_dashboard.clock_text(p_seconds float8) returns text language sql immutable as $$
    select lpad(hours::text, greatest(2, length(hours::text)), '0')
           || to_char(make_interval(secs => floor(seconds) - 3600 * hours), ':MI:SS')
           || case when p_seconds < 600 then '.' || mod(10 * seconds, 10)::integer else '' end
    from (select seconds, floor(seconds / 3600)::bigint as hours from (select round(p_seconds::numeric, 1)) as r (seconds)) x
$$;

-- Return a duration as text: 4.2 s, 00:03:07.1, 00:12:07, 167:50:00.
create or replace function bench_internal.duration_text(p_seconds float8) returns text language sql immutable as $$
    select case when p_seconds < 60 then round(p_seconds::numeric, 1) || ' s' else clock_text(p_seconds) end
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
