-- Values of several exporters (below: targets), which are scraped at different times, add up in bins. A bin that lacks a target is incomplete: a sum
-- over the others is no value of the run. Summaries and charts leave it out of minima, maxima, percentiles and curves. All functions
-- take points in parallel arrays: a line, a target with a sample, and a bin, which is a number; the next bin has the next number.

-- Return whether the targets of a quantity are expected at all times of a run: those of its devices and hosts. Processes of a run may
-- end before others, and each exporter has CPU time of its own.
create or replace function bench_internal.always_expected(p_quantity text, p_scope text) returns boolean language sql stable as $$
    select p_scope <> 'process' and p_quantity <> 'listener_cpu_usage'
           and exists (select from metrics where quantity = p_quantity and origin = '')
$$;

-- Return the bins in which each target of a line is expected: all of the line's, if it is one of `p_always` and all its targets ever had
-- samples in one bin. Else from two bins before the first sample to two after the last one, since a scrape may come late.
create or replace function bench_internal.expected_bins(p_lines bigint[], p_targets integer[], p_bins bigint[], p_always bigint[])
returns table (line bigint, target integer, first bigint, last bigint)
language plpgsql immutable rows 100 set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
begin
    return query
    with present as materialized (
        select distinct p.line, p.target, p.bin from unnest(p_lines, p_targets, p_bins) p (line, target, bin)
    ), bounds as materialized (
        select line, target, min(bin) as first, max(bin) as last, min(min(bin)) over line as line_first,
               max(max(bin)) over line as line_last, count(*) over line as targets
        from present group by line, target window line as (partition by line)
    ), together as (
        select line from (select line, count(*) as targets from present where line = any(p_always) group by line, bin) x
        group by line having max(targets) = (select max(b.targets) from bounds b where b.line = x.line)
    )
    select b.line, b.target, case when t.line is null then greatest(first - 2, line_first) else line_first end,
           case when t.line is null then least(last + 2, line_last) else line_last end
    from bounds b left join together t using (line);
end $$;

-- Return the complete bins: those with a sample of every target that is expected.
create or replace function bench_internal.complete_bins(p_lines bigint[], p_targets integer[], p_bins bigint[], p_always bigint[])
returns table (line bigint, bin bigint) language plpgsql immutable rows 1000 set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
begin
    return query
    with expected as materialized (
        select * from expected_bins(p_lines, p_targets, p_bins, p_always)
    ), counted as (
        select p.line, p.bin, count(distinct p.target) as targets, 0 as change
        from unnest(p_lines, p_targets, p_bins) p (line, target, bin) group by p.line, p.bin
        union all
        select line, bin, null, sum(change)
        from (select line, first as bin, 1 as change from expected union all select line, last + 1, -1 from expected) x
        group by line, bin
    ), running as (
        -- At a bin the changes come first.
        select line, bin, targets, sum(change) over (partition by line order by bin, targets is not null) as expected from counted
    )
    select line, bin from running where targets >= expected;
end $$;
