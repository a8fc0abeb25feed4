-- Staging tables of an import: they hold a capsule's rows until these have new ids, see sql/transfer/staging.py. The tables are
-- permanent, since a writer may lack the right to create tables. They are unlogged, and empty outside the transaction of an
-- import, of which there is one at a time. Each change of the schema recreates them, so that their columns match the tables
-- that they mirror.
drop schema if exists bench_staging cascade;
create schema bench_staging;

do $$
declare
    relation text;
begin
    foreach relation in array array[
        'experiments', 'workloads', 'runs', 'placements', 'metrics', 'places', 'series', 'run_sets', 'software_metrics', 'spans',
        'stored_summaries', 'stored_duplicates', 'stored_contention', 'rule_firings', 'highlights', 'rule_actions', 'accounting',
        'profiles', 'profile_entries', 'profile_stacks', 'tensor_sets', 'tensor_steps', 'tensor_problems']
    loop
        execute format('create unlogged table bench_staging.%I (like %s including defaults)', relation, relation::regclass);
    end loop;
end $$;

-- Mapping of ids, by the kind of object.
create unlogged table bench_staging.new_ids (what text, old integer, new integer, primary key (what, old));

do $$
begin
    grant usage on schema bench_staging to bench_owner, bench_writer;
    grant select, insert, update, delete, truncate on all tables in schema bench_staging to bench_owner, bench_writer;
exception when insufficient_privilege or undefined_object then
    raise notice 'rights were left as they are: %', sqlerrm;
end $$;
