-- Remove runs with their own data, and return the number of removed samples. Samples shared with other runs stay with those,
-- which keep a count of the removed runs. Each bucket of an aggregate belongs to one run set, so the same buckets are deleted:
-- aggregates agree with samples below the watermark and the raw cutoff too. Only the owner may write to aggregates, hence
-- `security definer`.
create or replace function bench_internal.remove_runs(p_runs text[]) returns bigint
language plpgsql security definer set search_path = pg_catalog, bench, bench_internal, pg_temp as $$
declare
    own_places constant integer[] := array(select place_id from places where run_id = any(p_runs));
    own_series constant integer[] := array(select series_id from series where place_id = any(own_places));
    their_workloads constant integer[] := array(select workload_id from runs where run_id = any(p_runs));
    their_experiments constant integer[] := array(select experiment_id from workloads where workload_id = any(their_workloads));
    own_sets integer[];
    near_series integer[];
    low timestamptz;
    high timestamptz;
    relation text;
    condition text;
    samples text;
    removed bigint := 0;
    n bigint;
begin
    if exists (select from runs where run_id = any(p_runs) and (keep or status in ('pending', 'running'))) then
        raise exception 'running and protected runs cannot be removed';
    end if;
    perform pg_advisory_xact_lock(hashtext('bench.refresh'));  -- excludes refreshes meanwhile
    lock table bench_internal.retention in share mode;  -- keeps the raw cutoff from moving
    lock table bench_internal.pack_lock in share mode;  -- excludes packing
    perform set_config('timescaledb.max_tuples_decompressed_per_dml_transaction', '0', true);  -- no limit
    select array_agg(runset_id), min(low_), max(high_) into own_sets, low, high
    from (select runset_id, min(started_at) as low_, max(coalesce(ended_at, 'infinity')) as high_ from run_sets
          where runset_id in (select runset_id from run_sets where run_id = any(p_runs))
          group by runset_id having bool_and(run_id = any(p_runs))) sets;
    near_series := array(select series_id from series
                         where place_id in (select place_id from run_sets where runset_id = any(own_sets)));
    -- Two statements: with an `or` the columnstore would decompress everything. The tag decides; the bounds on time narrow the
    -- search, and are wider than a scrape interval and a bucket.
    for relation, condition, samples in
        select r.relation, c.condition, r.samples
        from sample_relations() r
        cross join lateral (values
            (format('series_id = any(%L::integer[])', own_series)),
            (format($q$series_id = any(%L::integer[]) and runset_id = any(%L::integer[])
                       and %I >= %L::timestamptz - interval '11 min' and %I < %L::timestamptz + interval '11 min'$q$,
                    near_series, own_sets, r.last_column, low, r.first_column, high))) c (condition)
    loop
        if samples = 'n' then  -- a row has several
            execute format('select coalesce(sum(n), 0) from %s where %s', relation, condition) into n;
        end if;
        execute format('delete from %s where %s', relation, condition);
        if samples = '1' then
            get diagnostics n = row_count;
        end if;
        removed := removed + case when samples is null then 0 else n end;
    end loop;
    update run_sets mine set others = others + deleted.n
    from (select runset_id, count(*)::integer as n from run_sets where run_id = any(p_runs) group by runset_id) deleted
    where deleted.runset_id = mine.runset_id and mine.run_id <> all(p_runs);
    -- Marked as imported: the delete would otherwise rebuild the run sets of the other runs.
    update placements set origin = 'removed' where run_id = any(p_runs);
    delete from runs where run_id = any(p_runs);
    delete from series where series_id = any(own_series);
    delete from places where place_id = any(own_places);
    delete from workloads w where workload_id = any(their_workloads) and w.ended_at is not null
        and not exists (select from runs r where r.workload_id = w.workload_id);
    delete from experiments e where experiment_id = any(their_experiments)
        and not exists (select from workloads w where w.experiment_id = e.experiment_id);
    return removed;
end $$;
revoke execute on function remove_runs from public;  -- 90_roles.sql grants it
