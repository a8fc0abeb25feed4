"""The variables that the dashboards share: experiment → workload → run, and what is shown of them."""

from __future__ import annotations

from dashboards.grafana.queries import Json, numbers, texts
from dashboards.grafana.variables import choice

__all__ = ["experiment", "metric", "run", "workload"]


def experiment() -> Json:
    """Return the choice of experiments, the newest first."""
    return choice(
        "experiment",
        "Experiment",
        """
        select experiment_id::text as __value, concat_ws(' ', experiment_id, nullif(name, '')) as __text
        from experiments order by created_at desc, experiment_id desc
        """,
    )


def workload(*, start_with_all: bool = False) -> Json:
    """Return the choice of workloads of the experiments chosen."""
    return choice(
        "workload",
        "Workload",
        f"""
        select workload_id::text as __value, workload_title(w) as __text
        from workloads w where experiment_id = any({numbers("experiment")}) order by experiment_id, workload
        """,
        start_with_all=start_with_all,
    )


def run(name: str = "run", label: str = "Run", *, several: bool = True) -> Json:
    """Return the choice of runs of the workloads chosen."""
    return choice(
        name,
        label,
        f"""
        select run_id as __value, run_title(w, r) as __text
        from runs r join workloads w using (workload_id)
        where workload_id = any({numbers("workload")}) order by experiment_id, workload, position, attempt
        """,
        several=several,
        start_with_all=several,
    )


def metric(name: str = "metric", label: str = "Metric", *, runs: str = "run", several: bool = True) -> Json:
    """Return the choice of quantities that the runs chosen have."""
    return choice(
        name,
        label,
        f"select quantity from run_quantities({texts(runs)})",
        several=several,
    )
