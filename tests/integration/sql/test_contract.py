"""The contract in SQL: what is in schema `bench`, and a comment on each of its parts."""

from __future__ import annotations

import pytest

from hypergauge.sql.server.database import Database

pytestmark = pytest.mark.flavours

RELATIONS = {
    "experiments": "experiment_id name source created_at",
    "workloads": "workload_id experiment_id workload status started_at ended_at",
    "runs": "run_id mlflow_run_id workload_id position attempt name owner status started_at ended_at exit_code reason "
    "command environment collocation params host keep simulated profilers exporters intervals",
    "placements": "run_id host gpu_uuid gpu_instance_id mig_uuid root_pid started_at ended_at",
    "metrics": "metric match quantity unit scale kind combine preference whole_device help",
    "places": "place_id kind host gpu_uuid gpu_instance_id",
    "series": "series_id metric quantity place_id host device labels",
    "run_sets": "runset_id place_id run_id scope started_at ended_at",
    "batches": "source batch",
    "samples": "time series_id runset_id value dt",
    "samples_10s": "bucket series_id runset_id n seconds area min max",
    "samples_1m": "bucket series_id runset_id n seconds area min max",
    "samples_10m": "bucket series_id runset_id n seconds area min max",
    "run_samples": "experiment_id workload run_id position run quantity metric unit scope host device time elapsed value dt",
    "software_metrics": "run_id key step time elapsed value",
    "run_summary": "run_id quantity scope metric device n seconds mean min max p50 p95 total",
    "spans": "run_id span_id parent_id name kind step started_at ended_at pid thread data_wait samples tokens flops",
    "tensor_stats": "run_id step time pid collection name size min max mean std l1 l2 zeros nonfinite saturated update_ratio "
    "p05 p25 p50 p75 p95",
    "run_throughput": "run_id steps seconds steps_per_second samples tokens samples_per_second tokens_per_second "
    "flops_per_second data_wait_share mfu",
    "gpu_peaks": "model pattern fp16 tf32 fp32 fp8 slices source",
    "rule_firings": "run_id rule started_at ended_at severity evidence",
    "highlights": "run_id started_at ended_at kind text weight",
    "rule_actions": "run_id rule started_at action severity evidence asked_at begun_at ended_at outcome detail",
    "run_quality": "run_id coverage interval_seconds simulated profiled shared throttled overhead",
    "run_contention": "run_id cores workload_cores other_run_cores other_cores service_cores cpu_pressure other_runs "
    "gpu_other_processes gpu_other_memory gpu_other_share delay",
    "accounting": "run_id step state elapsed_seconds cpu_seconds max_rss_bytes energy_joules",
    "calibrations": "host command listeners exporters repetitions slowdown low high cpu_share memory_bytes calibrated_at",
    "profiles": "run_id profiler number started_at ended_at rate problem",
    "profile_entries": "run_id profiler number kind name phase calls total self share",
    "profile_stacks": "run_id profiler number kind frames calls self",
    "targets": "target_id host listener url last_seen up",
    "devices": "place_id kind host gpu_uuid gpu_instance_id device model profile simulated",
    "run_list": "run_id experiment_id workload_id workload position attempt run title name status seconds coverage",
}
FUNCTIONS = """
    run_chart workload_chart tensor_chart chart_axis run_label replica_behind cancel_long_reads
    rule_points rule_cpu rule_window rule_windows rule_intervals rule_steps
    rule_tensors rule_streaks rule_losses rule_learned rule_evaluations rule_inputs
"""
NAMES = "select relname from pg_class where relnamespace = 'bench'::regnamespace and relkind in ('r', 'v', 'm', 'p')"
WITHOUT_COMMENT = """
    select c.relname::text from pg_class c
    where relnamespace = 'bench'::regnamespace and relkind in ('r', 'v', 'm', 'p') and obj_description(c.oid, 'pg_class') is null
    union all
    select format('%I.%I', c.relname, a.attname) from pg_class c join pg_attribute a on a.attrelid = c.oid
    where relnamespace = 'bench'::regnamespace and relkind in ('r', 'v', 'm', 'p') and attnum > 0 and not attisdropped
      and col_description(c.oid, attnum) is null
    union all
    select p.oid::regprocedure::text from pg_proc p
    where pronamespace = 'bench'::regnamespace and obj_description(p.oid, 'pg_proc') is null
    order by 1
"""


@pytest.mark.parametrize("relation", RELATIONS)
def test_every_relation_of_the_contract_answers(database: Database, relation: str) -> None:
    with database.session() as connection:
        columns = ", ".join(RELATIONS[relation].split())
        connection.execute(f"select {columns} from bench.{relation} limit 1".encode())


def test_the_schema_holds_the_contract_and_no_more(database: Database) -> None:
    with database.session() as connection:
        relations = connection.execute(NAMES).fetchall()
        functions = connection.execute(
            "select distinct proname from pg_proc where pronamespace = 'bench'::regnamespace"
        ).fetchall()
    assert {name for (name,) in relations} == set(RELATIONS)
    assert {name for (name,) in functions} == set(FUNCTIONS.split())


def test_every_relation_column_and_function_has_a_comment(database: Database) -> None:
    with database.session() as connection:
        assert connection.execute(WITHOUT_COMMENT).fetchall() == []
