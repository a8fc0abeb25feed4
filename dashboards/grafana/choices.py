"""The variables that the dashboards share: experiment → workload → run, and what is shown of them."""

from __future__ import annotations

from collections.abc import Sequence

from dashboards.grafana.queries import Json, texts
from dashboards.grafana.variables import choice, textbox

__all__ = ["MLFLOW", "experiment", "fit", "metric", "mlflow", "run", "software", "workload"]

MLFLOW = "http://127.0.0.1:5000"
_NEWEST = ("newest",)


def experiment(start: Sequence[str] = _NEWEST) -> Json:
    """Return the choice of experiments: the newest, whichever that is, or any."""
    return choice(
        "experiment",
        "Experiment",
        """
        select 'newest' as __value, 'The newest' as __text
        union all
        (select experiment_id::text, concat_ws(' ', experiment_id, nullif(name, ''))
         from experiments order by experiment_id desc)
        """,
        start=start,
    )


def workload(
    start: Sequence[str] = (), *, name: str = "workload", label: str = "Workload", several: bool = True
) -> Json:
    """Return the choice of workloads of the experiments chosen; at first all, or `start`."""
    return choice(
        name,
        label,
        f"""
        select 'newest' as __value, 'The newest' as __text
        union all
        (select workload_id::text, workload_title(w) from workloads w
         where experiment_id = any(chosen_experiments({texts("experiment")})) order by experiment_id, workload)
        """,
        start=start,
        several=several,
    )


def run(name: str = "run", label: str = "Run", *, several: bool = True) -> Json:
    """Return the choice of runs of the workloads chosen; at first all, or the first where only one can be chosen."""
    return choice(
        name,
        label,
        f"""
        select run_id as __value, run_title(w, r) as __text from runs r join workloads w using (workload_id)
        where workload_id = any(chosen_workloads({texts("experiment")}, {texts("workload")}))
        order by experiment_id, workload, position, attempt
        """,
        several=several,
    )


def metric(
    start: Sequence[str] = (), *, name: str = "metric", label: str = "Metric", runs: str = "run", several: bool = True
) -> Json:
    """Return the choice of quantities that the runs chosen have; at first those of `start` that there are."""
    return choice(name, label, f"select quantity from run_quantities({texts(runs)})", start=start, several=several)


def software(start: Sequence[str] = ()) -> Json:
    """Return the choice of software metrics that the runs chosen have logged."""
    return choice("software", "Logged", f"select key from software_keys({texts('run')})", start=start)


def fit() -> Json:
    """Return the end of a range of time that shows the longest run, from its start: hidden, for `layout.fit_link`."""
    return choice("fit", "", f"select chart_end({texts('run')})", several=False, hide=True) | {"skipUrlSync": True}


def mlflow() -> Json:
    """Return where people reach MLflow: hidden, `bench dashboards push` writes what is configured."""
    return textbox("mlflow", "MLflow", MLFLOW) | {"hide": 2}
