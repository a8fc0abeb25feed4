-- Raw samples are kept for ever, unless it is said for how long. Below the edge they are gone (but for runs to be kept)
-- and the aggregates are the truth.
create table retention (
    keep_raw interval check (keep_raw >= interval '1 day'),
    edge     timestamptz not null default '-infinity'
);
insert into retention default values;

-- Samples on their way to below the edge; empty between transactions.
create unlogged table late_samples (like samples);

-- Rows on their way to samples_10s below the edge, where no refresh would bring them.
create table samples_10s_late (
    bucket    timestamptz not null,
    series_id integer not null,
    runset_id integer not null,
    n         bigint not null,
    seconds   double precision,
    area      double precision,
    min       double precision,
    max       double precision
);

-- One job of ours (functions/70_aggregates) refreshes the levels one after the other. Policies of their own ran at the
-- same time, and a level could be made of one that was not complete: it stayed wrong until its next turn.
select public.remove_continuous_aggregate_policy('samples_10s');
select public.remove_continuous_aggregate_policy('samples_1m');
select public.remove_continuous_aggregate_policy('samples_10m');

drop function if exists retag(integer, timestamptz);  -- it answers otherwise since
