"""Variables shared by dashboards: experiment → workload → run, and metrics."""

from __future__ import annotations

from collections.abc import Sequence

from hypergauge.dashboards.grafana.model.variables import choice, custom, textbox
from hypergauge.dashboards.grafana.queries import Json, literals, texts

__all__ = [
    "ALIGN",
    "RUNS",
    "WORKLOADS",
    "align",
    "baseline",
    "baseline_run",
    "cut",
    "drawn",
    "experiment",
    "fit",
    "metric",
    "mlflow",
    "parameter",
    "ranking",
    "result",
    "run",
    "software",
    "throughput",
    "with_mlflow",
    "workload",
]

_NEWEST = ("newest",)

# Selections in SQL: run ids, the start of the time axis, and the `workload_id` of workloads.
RUNS = texts("run")
ALIGN = "${align:sqlstring}"
WORKLOADS = f"chosen_workloads({texts('experiment')}, {texts('workload')})"


def experiment(start: Sequence[str] = _NEWEST) -> Json:
    """Return the choice of experiments, among them the newest one."""
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
    """Return the choice of workloads in the chosen experiments; initially all, or `start`."""
    return choice(
        name,
        label,
        f"""
        select 'newest' as __value, 'The newest' as __text
        union all
        (select workload_id::text, workload_label(workload_id) from workloads
         where experiment_id = any(chosen_experiments({texts("experiment")})) order by experiment_id, workload)
        """,
        start=start,
        several=several,
    )


def baseline() -> Json:
    """Return the choice of the baseline workload; initially the first."""
    return choice(
        "baseline",
        "Baseline",
        f"""
        select workload_id::text as __value, title as __text from workload_titles({WORKLOADS}) order by nth
        """,
        several=False,
    )


def baseline_run(runs: str = RUNS) -> Json:
    """Return the choice of the baseline among the chosen runs; initially the first."""
    return choice(
        "baseline",
        "Baseline",
        f"""
        select run_id as __value, title as __text
        from run_list where run_id = any({runs}) and started_at is not null
        order by experiment_id, workload, position, attempt desc
        """,
        several=False,
    )


def result(runs: str = RUNS, *, chosen: str | None = None) -> Json:
    """Return the hidden choice of the software metric that is a result: the most relevant, of those in the SQL array `chosen` if any."""
    first = f"key = any({chosen}) desc, " if chosen else ""
    statement = f"select key from result_keys({runs}) with ordinality as x (key, nth) order by {first}nth"
    return choice("result", "", statement, several=False, hide=True)


def ranking() -> Json:
    """Return the hidden variable of the order of results in words: by `result` if its better direction is known, else by duration."""
    statement = (
        "select coalesce(case better_direction(${result:sqlstring}) when -1 then 'lowest ' when 1 then 'highest ' end "
        "|| ${result:sqlstring}, 'shortest')"
    )
    return choice("ranking", "", statement, several=False, hide=True) | {"skipUrlSync": True}


def parameter() -> Json:
    """Return the hidden choice of a parameter that differs between the chosen runs."""
    return choice("parameter", "Parameter", f"select parameter from parameters({RUNS})", several=False)


def throughput() -> Json:
    """Return the choice of the throughput: a software metric, or runs per hour."""
    return choice("throughput", "Throughput", f"select key from throughput_keys(runs_of({WORKLOADS}))", several=False)


def run(name: str = "run", label: str = "Run", *, several: bool = True) -> Json:
    """Return the choice of runs in the chosen workloads; initially all, or the first of a single choice."""
    return choice(
        name,
        label,
        f"""
        select run_id as __value, run_title(w, r) as __text from runs r join workloads w using (workload_id)
        where workload_id = any({WORKLOADS})
        order by experiment_id, workload, position, attempt
        """,
        several=several,
    )


def metric(
    start: Sequence[str] = (),
    *,
    name: str = "metric",
    label: str = "Metric",
    runs: str = RUNS,
    several: bool = True,
    labelled: bool = True,
) -> Json:
    """Return the choice of quantities of the chosen runs; initially those of `start` that exist, or the first of a single choice."""
    statement = f"select quantity from run_quantities({runs})"
    if not several:
        statement += (
            f" with ordinality as x (quantity, unit, nth) order by array_position({literals(start)}, quantity), nth"
        )
    return choice(name, label, statement, start=start, several=several, labelled=labelled)


def software(start: Sequence[str] = ()) -> Json:
    """Return the choice of software metrics of the chosen runs."""
    return choice("software", "Logged", f"select key from result_keys({RUNS})", start=start)


def drawn(most: int, runs: str = RUNS, *, name: str = "drawn") -> Json:
    """Return the hidden variable that ends the titles of charts with at most `most` curves: empty for fewer runs."""
    return choice(
        name,
        "",
        f"""
        select format(' · at most {most} of %s runs', count(*)) from runs
        where run_id = any({runs}) and started_at is not null having count(*) > {most}
        """,
        several=False,
        hide=True,
    ) | {"skipUrlSync": True}


def align() -> Json:
    """Return the choice of where the common time axis starts; see `ALIGN`."""
    return custom(
        "align",
        "Align",
        {"time": "run start", "phase": "training start"},
        description="Where 00:00 is. Training is the phase with most steps. Runs without phases are left out.",
    )


def fit(runs: str = RUNS) -> Json:
    """Return the hidden variable of the longest run's end, for `layout.fit_link`."""
    return choice("fit", "", f"select chart_end({runs})", several=False, hide=True) | {"skipUrlSync": True}


def cut(runs: str = RUNS) -> Json:
    """Return the hidden variable that ends the titles of charts on a common axis: empty if they show the longest run."""
    asked = f"select * from chart_cut({runs}, $__timeFrom()::timestamptz, $__timeTo()::timestamptz)"
    return choice("cut", "", asked, several=False, hide=True, timed=True) | {"skipUrlSync": True}


def mlflow(url: str = "http://127.0.0.1:5000") -> Json:
    """Return the hidden variable of MLflow's address; see `with_mlflow`."""
    return textbox("mlflow", "MLflow", url.rstrip("/")) | {"hide": 2}


def with_mlflow(dashboard: Json, url: str) -> Json:
    """Return a dashboard with links to the MLflow at `url`."""
    variables = [mlflow(url) if one["name"] == "mlflow" else one for one in dashboard["templating"]["list"]]
    return {**dashboard, "templating": {"list": variables}}
