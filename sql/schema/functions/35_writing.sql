-- What a writer of samples does before it writes, once its series are open: enters its batches into the ledger, and keeps
-- the edge of retention from changing until it commits. `fresh` are the batches that were not there yet; times are in Unix
-- seconds, the edge is -Infinity where nothing was ever deleted.
create or replace function begin_write(
    p_source text, p_batches bigint[],
    out fresh bigint[], out version bigint, out edge double precision, out now double precision
) language plpgsql as $$
begin
    with entered as (
        insert into batches (source, batch) select p_source, unnest(p_batches) on conflict do nothing returning batch
    )
    select coalesce(array_agg(batch), '{}') into fresh from entered;
    perform pg_advisory_xact_lock_shared(hashtext('bench.samples'));
    -- Statements of their own, which see what was committed while the one before waited.
    select v.version into version from tag_version v;
    select extract(epoch from r.edge), extract(epoch from clock_timestamp()) into edge, now from retention r;
end $$;

-- What it does last before it commits: keeps the run sets from changing, and returns their version. Not earlier: whoever starts a
-- run would wait for all that is written meanwhile. So where the version is another one than at the beginning, samples are to be
-- looked at again.
create or replace function end_write() returns bigint language sql as $$
    select version from tag_version for share
$$;
