"""Dashboard of a saved view, with one panel per chart."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence

from hypergauge.core.errors import BadRequest, did_you_mean
from hypergauge.core.listing import listed
from hypergauge.dashboards.grafana import choices, curves, parts
from hypergauge.dashboards.grafana.model import panels
from hypergauge.dashboards.grafana.model.fields import by_label, for_query
from hypergauge.dashboards.grafana.model.layout import aligned_dashboard, board_link
from hypergauge.dashboards.grafana.queries import Json, literal, literals
from hypergauge.insight.charts.tensors import resolve
from hypergauge.insight.charts.view import Found, ViewChart
from hypergauge.sql.queries.charts.charts import software_keys
from hypergauge.sql.queries.charts.tensors import tensor_collections
from hypergauge.sql.queries.summaries import coverage
from hypergauge.sql.runs.selection import RunInfo
from hypergauge.sql.server.database import Connection

__all__ = ["check_drawn", "check_whole", "from_view"]

_MOST_LABELS = 3
# Line styles of the second metric and of further ones.
_STROKES = ({"fill": "dash", "dash": [10, 6]}, {"fill": "dot", "dash": [2, 5]})


def check_whole(charts: Iterable[ViewChart]) -> None:
    """Raise `BadRequest` if a chart is of a part of its runs."""
    if any(chart.part for chart in charts):
        raise BadRequest("Grafana's dashboards show whole runs: `bench open` shows a view of a part of them")


def check_drawn(
    connection: Connection, charts: Iterable[ViewChart], run_ids: Sequence[str], known: Collection[str]
) -> None:
    """Raise `BadRequest` if a chart has a metric of tensors of these runs, and none of the `known` ones."""
    others = [metric for chart in charts for metric in chart.metrics if metric not in known]
    collections = tensor_collections(connection, run_ids) if others else []
    for metric in others:
        if resolve(metric, collections) is not None:
            raise BadRequest(
                f"Grafana's dashboards of views have no curves of tensors, such as {metric}: `bench open` shows them, and the "
                "dashboard of a run shows its own"
            )


def from_view(connection: Connection, found: Found, name: str) -> Json:
    """Return the dashboard of a view; the same view always has the same uid.

    Raises
    ------
    BadRequest
        The runs of the view have no such metric, or the view is of a part of them.
    """
    ids = list(found.runs)
    logged = software_keys(connection, ids)
    known = [*(one.quantity for one in coverage(connection, ids)), *logged]
    check_drawn(connection, found.view.charts, ids, known)
    for metric in (metric for chart in found.view.charts for metric in chart.metrics):
        if metric not in known:
            raise BadRequest(f"the runs of this view have no {metric!r}{did_you_mean(metric, known)}")
    charts = found.view.charts
    check_whole(charts)
    width = 24 if len(charts) == 1 else 12
    deleted = f" Deleted: {', '.join(found.deleted)}." if found.deleted else ""
    digest = hashlib.sha256(found.view.text().encode()).hexdigest()
    return aligned_dashboard(
        f"bench-view-{digest[:16]}",
        name,
        [
            parts.notices({str(n): _notices(chart, logged) for n, chart in enumerate(charts, 1)}, width=24, height=5),
            *(_panel(n, chart, _labels(chart, found), logged, width) for n, chart in enumerate(charts, 1)),
            parts.run_table(literals(ids), width=24, height=8),
        ],
        description=f"A saved view from `bench dashboards push`.{deleted}",
        variables=[choices.mlflow()],
        links=[board_link("Mixed", "bench-mixed", keep_time=True)],
        seconds=max((run.duration or 0.0 for run in found.runs.values()), default=0.0) or 3600,
    )


def _labels(chart: ViewChart, found: Found) -> Sequence[str]:
    runs: list[RunInfo] = [found.runs[run_id] for run_id in chart.runs]
    return list(dict.fromkeys(f"{r.experiment_id}/{r.workload}" if chart.by == "workload" else r.label for r in runs))


def _workloads(chart: ViewChart) -> str:
    return f"array(select distinct workload_id from runs where run_id = any({literals(chart.runs)}) order by 1)"


def _notices(chart: ViewChart, logged: Collection[str]) -> str:
    metrics = literals(metric for metric in chart.metrics if metric not in logged)
    if chart.by == "workload":
        return parts.workload_notices(_workloads(chart), metrics)
    return parts.run_notices(literals(chart.runs), metrics)


def _panel(number: int, chart: ViewChart, labels: Sequence[str], logged: Collection[str], width: int) -> Json:
    title = f"{number}: {', '.join(chart.metrics)} of {listed(labels, _MOST_LABELS)}"
    if chart.align in ("step", "epoch"):
        return _by_number(title, chart, logged, width)
    targets, transformations, overrides = [], [], []
    for position, metric in enumerate(chart.metrics):
        ref, unit = chr(65 + 2 * position), chr(66 + 2 * position)
        targets.append(_target(chart, metric, logged, ref))
        if metric not in logged:
            targets.append(parts.unit_query(literals([metric]), ref=unit))
            transformations.append(parts.unit_applied(to=ref, ref=unit))
        else:
            overrides.append(for_query(ref, custom__spanNulls=True))
        if chart.by == "run" or metric in logged:
            transformations.append(parts.split(ref))
        if position:
            overrides.append(for_query(ref, custom__axisPlacement="right", custom__lineStyle=_STROKES[position > 1]))
    return panels.timeseries(
        title,
        targets,
        transformations=transformations,
        overrides=[*by_label(), *overrides],
        empty="No data on this axis.",
        width=width,
        height=10,
    )


def _title(chart: ViewChart, metric: str) -> str:
    """Return the SQL expression of a curve's name, with its metric if a chart has several."""
    return "title" if len(chart.metrics) == 1 else f"title || {literal(' ' + metric)}"


def _scopes(chart: ViewChart) -> str:
    return literals(chart.scopes) if chart.scopes else "null"


def _target(chart: ViewChart, metric: str, logged: Collection[str], ref: str) -> Json:
    runs, metrics = literals(chart.runs), literals([metric])
    more = {"title": _title(chart, metric), "align": literal(chart.align), "ref": ref}
    if metric in logged:
        return curves.software_curves(runs, metrics, **more)
    if chart.by == "workload":
        return curves.workload_curve(_workloads(chart), metrics, scopes=_scopes(chart), **more)
    return curves.run_curve(runs, metrics, scopes=_scopes(chart), **more)


def _by_number(title: str, chart: ViewChart, logged: Collection[str], width: int) -> Json:
    found = []
    for metric in chart.metrics:
        runs, metrics, name = literals(chart.runs), literals([metric]), _title(chart, metric)
        if metric in logged and chart.align == "epoch":
            raise BadRequest(f"Grafana shows software metrics by step, not by epoch: {metric}")
        if metric in logged:
            found.append(curves.software_points(runs, metrics, title=name))
        elif chart.by == "workload":
            found.append(
                curves.workload_points(_workloads(chart), metrics, chart.align, title=name, scopes=_scopes(chart))
            )
        else:
            found.append(curves.run_points(runs, metrics, chart.align, title=name, scopes=_scopes(chart)))
    unit = literals(chart.metrics) if len(chart.metrics) == 1 and chart.metrics[0] not in logged else None
    return parts.by_number(
        title,
        " union all ".join(found),
        description=curves.FIRST_RUNS,
        x=chart.align,
        metric=unit,
        width=width,
        height=10,
    )
