-- Start a write of samples, once their series exist: enter the batches into the ledger, and hold the raw cutoff until the
-- commit. `fresh` are the batches that the ledger did not have. Times are Unix seconds; the cutoff is -Infinity before the
-- first deletion.
create or replace function bench_internal.begin_write(
    p_source text, p_batches bigint[],
    out fresh bigint[], out version bigint, out raw_cutoff double precision, out now double precision
) language plpgsql as $$
begin
    with entered as (
        insert into batches (source, batch) select p_source, unnest(p_batches) on conflict do nothing returning batch
    )
    select coalesce(array_agg(batch), '{}') into fresh from entered;
    lock table bench_internal.retention in share mode;
    -- Separate statements: each sees what was committed while the previous one waited for its lock.
    select v.version into version from tag_version v;
    select extract(epoch from r.raw_cutoff), extract(epoch from clock_timestamp()) into raw_cutoff, now from retention r;
end $$;

-- Finish a write just before its commit: lock the run sets and return their version. A lock at the start of the write would
-- delay each start of a run. The writer tags its samples again where the version has changed since `begin_write`.
create or replace function bench_internal.end_write() returns bigint language sql as $$
    select version from tag_version for share
$$;
