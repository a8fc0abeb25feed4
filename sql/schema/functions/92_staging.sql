-- Where an import lays a capsule's rows until they have the ids that they get here: see sql/staging.py. Tables that stay, since
-- a writer need not have the right to make any; unlogged, and empty but inside the transaction of an import, of which there is
-- one at a time. Made anew with each schema, so that their columns are those of the tables that they stand for.
drop schema if exists bench_staging cascade;
create schema bench_staging;

do $$
declare
    relation text;
begin
    foreach relation in array array[
        'experiments', 'workloads', 'runs', 'placements', 'metrics', 'places', 'series', 'run_sets', 'software_metrics', 'spans',
        'stored_summaries', 'repeats', 'rule_firings', 'highlights', 'rule_actions', 'accounting']
    loop
        execute format('create unlogged table bench_staging.%1$I (like bench.%1$I including defaults)', relation);
    end loop;
end $$;

-- What ids become, by what they are ids of.
create unlogged table bench_staging.new_ids (what text, old integer, new integer, primary key (what, old));

do $$
begin
    grant usage on schema bench_staging to bench_owner, bench_writer;
    grant select, insert, update, delete, truncate on all tables in schema bench_staging to bench_owner, bench_writer;
exception when insufficient_privilege or undefined_object then
    raise notice 'rights were left as they are: %', sqlerrm;
end $$;
