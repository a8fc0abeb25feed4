"""Dashboard *Intra-workload*: the runs of one workload on a common time axis."""

from __future__ import annotations

from hypergauge.dashboards.grafana import choices, curves, parts
from hypergauge.dashboards.grafana.choices import RUNS
from hypergauge.dashboards.grafana.model import panels
from hypergauge.dashboards.grafana.model.fields import by_label, for_name
from hypergauge.dashboards.grafana.model.layout import Row, aligned_dashboard, board_link, fit_link
from hypergauge.dashboards.grafana.queries import Json, query, texts

__all__ = ["board"]

_UID = "bench-intra"
_METRIC = texts("metric")
_SOFTWARE = texts("software")


def board() -> Json:
    """Return the dashboard."""
    return aligned_dashboard(
        _UID,
        "Intra-workload: comparison of runs",
        [
            parts.notices({"": parts.run_notices(RUNS, _METRIC)}, width=24, height=6),
            parts.run_table(RUNS, width=24, height=8),
            Row("$metric", [_curve(), _bars(), _heatmap()], repeat="metric"),
            Row("$metric by step and by epoch", [_by("step"), _by("epoch")], collapsed=True, repeat="metric"),
            Row("Logged: $software", [_software_by_time(), _software_by_step()], repeat="software"),
        ],
        description="The runs of one workload on a common time axis. All start at 00:00.",
        variables=[
            choices.experiment(),
            choices.workload(["newest"]),
            choices.run(),
            choices.metric(["gpu_utilization", "gpu_sm_utilization", "cpu_usage", "memory_used"]),
            choices.software(["loss", "accuracy"]),
            choices.align(),
            choices.fit(),
            choices.mlflow(),
        ],
        annotations=[parts.phases(RUNS), parts.firings(RUNS), parts.failures(RUNS)],
        links=[
            fit_link(_UID),
            board_link("Inter-workload", "bench-inter", keep_time=True),
            board_link("Mixed", "bench-mixed", keep_time=True),
        ],
    )


def _curve() -> Json:
    return panels.timeseries(
        "$metric over time",
        **parts.in_unit_of(_METRIC, curves.run_curves(RUNS, _METRIC)),
        overrides=by_label(),
        empty=curves.CHOOSE,
        width=16,
        height=9,
    )


def _bars() -> Json:
    return panels.table(
        "$metric: mean and p95",
        **parts.in_unit_of(
            _METRIC, query(f'select title as "Run", mean as "Mean", p95 from run_values({RUNS}, {_METRIC})')
        ),
        overrides=[for_name("Mean", **parts.bar("blue")), for_name("p95", **parts.bar("light-blue"))],
        empty=curves.CHOOSE,
        width=8,
        height=9,
    )


def _heatmap() -> Json:
    return panels.heatmap(
        "$metric by run",
        **parts.in_unit_of(_METRIC, curves.run_lines(RUNS, _METRIC)),
        empty=curves.CHOOSE,
        points=240,
        width=24,
        height=6,
    )


def _by(axis: str) -> Json:
    return parts.by_number(
        f"$metric by {axis}",
        curves.run_points(RUNS, _METRIC, axis),
        description=curves.FIRST_RUNS,
        x=axis,
        metric=_METRIC,
        width=12,
        height=9,
    )


def _software_by_time() -> Json:
    return panels.timeseries(
        "$software over time",
        [curves.software_curves(RUNS, _SOFTWARE)],
        custom={"spanNulls": True, "showPoints": "auto"},
        legend=("lastNotNull",),
        overrides=by_label(),
        empty=curves.CHOOSE,
        width=12,
        height=9,
    )


def _software_by_step() -> Json:
    return parts.by_number(
        "$software by step",
        curves.software_points(RUNS, _SOFTWARE),
        x="step",
        legend=("lastNotNull",),
        width=12,
        height=9,
    )
