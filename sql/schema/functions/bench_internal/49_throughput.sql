-- Throughput of runs, by their tracked steps.

-- Return the tracked steps of a run that began in an interval, with the time that each took, in seconds since the run's start.
--
-- A step takes the time of its span, and the wait for its data before it, as far as the previous step of its thread had ended. The
-- waits of a thread are within its steps if most of its steps leave no time for them before.
create or replace function bench_internal.step_times(
    p_run text, p_start timestamptz default '-infinity', p_stop timestamptz default 'infinity'
) returns table (started_at timestamptz, ended_at timestamptz, began float8, ended float8, data_wait float8, samples float8,
                 tokens float8, flops float8) language sql stable as $$
    with tracked as (
        -- Seconds since the run's start: those since 1970 leave no digits for short steps.
        select s.started_at, s.ended_at, extract(epoch from s.started_at - r.started_at)::float8 as began,
               extract(epoch from s.ended_at - r.started_at)::float8 as ended,
               extract(epoch from lag(s.ended_at) over (partition by pid, thread order by s.started_at) - r.started_at)::float8 as before,
               pid, thread, data_wait, samples, tokens, flops
        from spans s join runs r using (run_id)
        where run_id = p_run and kind = 'step' and s.ended_at >= s.started_at and s.started_at >= p_start and s.started_at < p_stop
    ), waiting as (
        select *, avg(case when data_wait > 0 and before is not null then (began - before >= data_wait / 2)::integer end)
                  over (partition by pid, thread) < 0.5 as within
        from tracked
    )
    select started_at, ended_at,
           greatest(began - case when within then 0 else coalesce(data_wait, 0) end, least(before, case when before is not null then began end)),
           ended, data_wait, samples, tokens, flops
    from waiting
$$;

-- Return what the tracked steps of a run say about its throughput, in those of the given times; no row without such steps. A step
-- belongs to the times that contain its midpoint.
--
-- Times of ranks that overlap count once; samples, tokens and floating-point operations add up. Only steps that know an amount
-- count for its rate. Waits are a share of the time of each rank, and steps per second are those of a rank.
create or replace function bench_internal.throughput(p_run text, p_times tstzmultirange default '{(,)}')
returns table (steps bigint, seconds float8, steps_per_second float8, samples float8, tokens float8, samples_per_second float8,
               tokens_per_second float8, flops_per_second float8, data_wait_share float8) language sql stable as $$
    with timed as (
        select * from bench_internal.step_times(p_run) where p_times @> started_at + (ended_at - started_at) / 2
    ), reached as (  -- the end of all steps that began before, and of those among them that know an amount
        select *, max(ended) over earlier as any_end, max(case when samples is not null then ended end) over earlier as sampled_end,
               max(case when tokens is not null then ended end) over earlier as read_end,
               max(case when flops is not null then ended end) over earlier as computed_end
        from timed window earlier as (order by began rows between unbounded preceding and 1 preceding)
    ), sums as (
        select count(*) as steps, sum(greatest(ended - greatest(began, any_end), 0)) as seconds, sum(ended - began) as took,
               sum(samples) as samples, sum(greatest(ended - greatest(began, sampled_end), 0)) filter (where samples is not null) as sampled,
               sum(tokens) as tokens, sum(greatest(ended - greatest(began, read_end), 0)) filter (where tokens is not null) as read,
               sum(flops) as flops, sum(greatest(ended - greatest(began, computed_end), 0)) filter (where flops is not null) as computed,
               sum(data_wait) as waited, sum(ended - began) filter (where data_wait is not null) as waiting
        from reached having count(*) > 0
    )
    select steps, seconds, steps / nullif(took, 0), samples, tokens, samples / nullif(sampled, 0),
           tokens / nullif(read, 0), flops / nullif(computed, 0), case when waiting > 0 then least(waited / waiting, 1) end
    from sums
$$;
