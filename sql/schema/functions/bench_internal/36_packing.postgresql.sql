-- Packing: rows of closed hours become arrays. A sample is in one of both forms, and each step is one transaction: a crash loses
-- nothing and doubles nothing. The lock on `pack_lock` excludes packing while tags change or runs are removed; writers never wait.

-- Return whether a block of samples stores the aggregates of a level: it saves time where they are far fewer than the samples.
create or replace function bench_internal.stores_level(p_samples bigint, p_buckets bigint) returns boolean language sql immutable as $$
    select p_samples >= 240 and p_samples >= 4 * p_buckets
$$;

-- Return whether single precision represents a value exactly.
create or replace function bench_internal.is_single(p_value float8) returns boolean language sql immutable as $$
    select case when abs(p_value) between 1e-37 and 1e38 then p_value::real::float8 = p_value else p_value = 0 end
$$;

-- Return the buckets of scrapes, where `stores_level`.
create or replace function bench_internal.scrape_buckets(
    p_width interval, p_times timestamptz[], p_dts real[],
    out buckets timestamptz[], out counts integer[], out seconds float8[]
) language sql immutable as $$
    select array_agg(bucket order by bucket), array_agg(n order by bucket), array_agg(seconds order by bucket)
    from (select date_bin(p_width, time, timestamptz '2000-01-03 00:00:00+00') as bucket, count(*)::integer as n,
                 sum(dt::float8) as seconds
          from unnest(p_times, p_dts) x (time, dt) group by 1) x
    having stores_level(cardinality(p_times), count(*))
$$;

-- Return the aggregates of values in the buckets of their scrapes.
create or replace function bench_internal.value_buckets(
    p_width interval, p_times timestamptz[], p_dts real[], p_values float8[], out areas float8[], out lows float8[], out highs float8[]
) language sql immutable as $$
    select array_agg(area order by bucket), array_agg(low order by bucket), array_agg(high order by bucket)
    from (select date_bin(p_width, time, timestamptz '2000-01-03 00:00:00+00') as bucket, sum(value * dt) as area,
                 min(value) as low, max(value) as high
          from unnest(p_times, p_dts, p_values) x (time, dt, value) group by 1) x
$$;

-- Pack the samples of some series before a time, and return their number.
create or replace function bench_internal.pack_series(p_series integer[], p_until timestamptz) returns bigint
language sql set work_mem = '64MB' set jit = off as $$
    with taken as (
        delete from unpacked_samples where series_id = any(p_series) and time < p_until returning *
    ), blocks as materialized (
        select series_id, runset_id, min(time) as first, max(time) as last, count(*) as n, min(value) as low, max(value) as high,
               bool_and(is_single(value)) as single, array_agg(time order by time, value, dt) as times,
               array_agg(value order by time, value, dt) as values, array_agg(dt order by time, value, dt) as dts
        from taken
        group by series_id, runset_id, date_bin('1 hour', time, timestamptz '2000-01-03 00:00:00+00'), value is null
    ), scrapes as (
        insert into packed_scrapes (times, dts, buckets_10s, counts_10s, seconds_10s, buckets_1m, counts_1m, seconds_1m,
                                    buckets_10m, counts_10m, seconds_10m)
        select b.times, b.dts, s.*, m.*, t.*
        from (select distinct times, dts from blocks) b
        cross join lateral scrape_buckets('10 s', b.times, b.dts) s
        cross join lateral scrape_buckets('1 min', b.times, b.dts) m
        cross join lateral scrape_buckets('10 min', b.times, b.dts) t
        returning *
    ), packed as (
        insert into packed_samples (first, last, series_id, runset_id, scrapes_id, n, value, singles, doubles,
                                    areas_10s, lows_10s, highs_10s, areas_1m, lows_1m, highs_1m, areas_10m, lows_10m, highs_10m)
        select first, last, series_id, runset_id, scrapes_id, n, case when low = high then low end,
               case when low < high and single then values::real[] end, case when low < high and not single then values end,
               s.*, m.*, t.*
        from blocks b join scrapes c using (times, dts)
        left join lateral value_buckets('10 s', times, dts, values) s on low < high and buckets_10s is not null
        left join lateral value_buckets('1 min', times, dts, values) m on low < high and buckets_1m is not null
        left join lateral value_buckets('10 min', times, dts, values) t on low < high and buckets_10m is not null
        returning n)
    select coalesce(sum(n), 0)::bigint from packed
$$;

-- Pack the hours that closed before a time, in transactions of about `p_samples`. Between two the session sleeps `p_rest` times as long
-- as the first took, so that it leaves time to others on a busy host. One session packs at a time, its rests included; another one has
-- nothing to do. Series of a target are packed together, since they share their scrapes.
create or replace procedure bench_internal.pack(p_until timestamptz, p_samples integer default 250000, p_rest float8 default 0)
language plpgsql as $$
declare
    closed constant timestamptz := date_bin('1 hour', p_until, timestamptz '2000-01-03 00:00:00+00');
    ids integer[];
    began timestamptz;
    took interval := '0';
begin
    for ids in
        select array_agg(series_id)
        from (select series_id, div(sum(n) over (order by target_id, series_id) - n, p_samples) as part
              from (select series_id, count(*) as n from bench_internal.unpacked_samples where time < closed group by series_id) waiting
              left join bench.series using (series_id)) x
        group by part order by part
    loop
        begin
            lock table bench_internal.packer_lock in exclusive mode nowait;
        exception when lock_not_available then
            exit;
        end;
        perform pg_sleep_for(p_rest * took);
        lock table bench_internal.pack_lock in exclusive mode;
        began := clock_timestamp();
        perform bench_internal.pack_series(ids, closed);
        commit;
        took := clock_timestamp() - began;
    end loop;
    -- An index keeps the size of its best days. After a bulk of old samples it is much too large for what is left. Only the owner of
    -- the table may make it again.
    if pg_relation_size('bench_internal.samples_series') > 16 * 1024 * 1024
        and (select pg_has_role(relowner, 'usage') from pg_class where oid = 'bench_internal.unpacked_samples'::regclass)
    then
        analyze bench_internal.unpacked_samples;
        if (select pg_relation_size('bench_internal.samples_series') > 400 * reltuples from pg_class
            where oid = 'bench_internal.unpacked_samples'::regclass) then
            reindex index bench_internal.samples_series;
        end if;
    end if;
end $$;

-- Unpack the samples of a resource from a time on whose tags are not those of its run sets, and those at a boundary of these.
create or replace function bench_internal.unpack(p_place integer, p_from timestamptz) returns void language sql as $$
    with edges as materialized (
        select distinct e.time from run_sets cross join lateral (values (started_at), (ended_at)) e (time) where place_id = p_place
    ), taken as (
        delete from packed_samples p using packed_scrapes s
        where s.scrapes_id = p.scrapes_id and p.series_id in (select series_id from series where place_id = p_place)
          and p.last >= p_from
          and (tag_at(p_place, p.first) <> p.runset_id or tag_at(p_place, p.last) <> p.runset_id
               or exists (select from edges e where e.time > p.first - s.dts[1] * interval '1 s' and e.time <= p.last))
        returning p.series_id, p.runset_id, p.singles, p.doubles, p.value, s.times, s.dts
    )
    insert into unpacked_samples (time, series_id, runset_id, value, dt)
    select time, series_id, runset_id, coalesce(single, double, value), dt
    from (select series_id, runset_id, value, unnest(times) as time, unnest(singles)::float8 as single, unnest(doubles) as double,
                 unnest(dts) as dt
          from taken) x
$$;

-- Delete scrapes whose packed samples are gone.
create or replace function bench_internal.delete_unused_scrapes() returns void language plpgsql as $$
begin
    lock table bench_internal.pack_lock in exclusive mode;
    delete from packed_scrapes s where not exists (select from packed_samples p where p.scrapes_id = s.scrapes_id);
end $$;
