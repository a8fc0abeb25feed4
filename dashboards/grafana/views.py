"""A saved view as a dashboard of its own, with a panel for each of its charts."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence

from bench.errors import BadRequest, did_you_mean
from dashboards.grafana import panels, parts
from dashboards.grafana.fields import by_label, for_query
from dashboards.grafana.layout import aligned_dashboard, board_link
from dashboards.grafana.queries import Json, literal, literals
from insight.view import Found, ViewChart
from sql.charts import software_keys
from sql.database import Connection
from sql.selection import RunInfo
from sql.summaries import coverage

__all__ = ["from_view"]

_MOST_LABELS = 3


def from_view(connection: Connection, found: Found, name: str) -> Json:
    """Return the dashboard of what there is of a view, by the name `name`; the same view always has the same uid.

    Raises
    ------
    BadRequest
        The runs of the view have no such metric.
    """
    ids = list(found.runs)
    logged = software_keys(connection, ids)
    known = [*(one.quantity for one in coverage(connection, ids)), *logged]
    for metric in (metric for chart in found.view.charts for metric in chart.metrics):
        if metric not in known:
            raise BadRequest(f"the runs of this view have no {metric!r}{did_you_mean(metric, known)}")
    charts = found.view.charts
    width = 24 if len(charts) == 1 else 12
    gone = f" Gone by now: {', '.join(found.gone)}." if found.gone else ""
    digest = hashlib.sha256(found.view.text().encode()).hexdigest()
    return aligned_dashboard(
        f"bench-view-{digest[:16]}",
        name,
        [
            parts.notices(
                " union all ".join(_notices(n, chart, logged) for n, chart in enumerate(charts, 1)), width=24, height=5
            ),
            *(_panel(n, chart, _labels(chart, found), logged, width) for n, chart in enumerate(charts, 1)),
            parts.run_table(literals(ids), width=24, height=8),
        ],
        description=f"A saved view, made by `bench dashboards push`.{gone}",
        variables=[],
        links=[board_link("Mixed", "bench-mixed", keep_time=True)],
        seconds=max((run.duration or 0.0 for run in found.runs.values()), default=0.0) or 3600,
    )


def _labels(chart: ViewChart, found: Found) -> Sequence[str]:
    runs: list[RunInfo] = [found.runs[run_id] for run_id in chart.runs]
    return list(dict.fromkeys(f"{r.experiment_id}/{r.workload}" if chart.by == "workload" else r.label for r in runs))


def _quantities(chart: ViewChart, logged: Collection[str]) -> list[str]:
    return [metric for metric in chart.metrics if metric not in logged]


def _workloads(chart: ViewChart) -> str:
    return f"array(select distinct workload_id from runs where run_id = any({literals(chart.runs)}) order by 1)"


def _notices(number: int, chart: ViewChart, logged: Collection[str]) -> str:
    metrics = literals(_quantities(chart, logged))
    call = (
        parts.workload_notices(_workloads(chart), metrics)
        if chart.by == "workload"
        else parts.run_notices(literals(chart.runs), metrics)
    )
    return f"select '{number}' as chart, n.* from {call} n"


def _panel(number: int, chart: ViewChart, labels: Sequence[str], logged: Collection[str], width: int) -> Json:
    more = f" and {len(labels) - _MOST_LABELS} more" if len(labels) > _MOST_LABELS else ""
    title = f"{number}: {', '.join(chart.metrics)} of {', '.join(labels[:_MOST_LABELS])}{more}"
    targets, transformations, overrides = [], [], []
    for position, metric in enumerate(chart.metrics):
        ref, name = chr(65 + 2 * position), "title" if len(chart.metrics) == 1 else f"title || {literal(' ' + metric)}"
        targets.append(_target(chart, metric, logged, name, ref))
        if metric not in logged:
            unit = chr(66 + 2 * position)
            targets.append(parts.unit_query(literals([metric]), ref=unit))
            transformations.append(parts.unit_applied(to=ref, ref=unit))
        if position:
            stroke = {"fill": "dash", "dash": [10, 6]} if position == 1 else {"fill": "dot", "dash": [2, 5]}
            overrides.append(for_query(ref, custom__axisPlacement="right", custom__lineStyle=stroke))
    return panels.timeseries(
        title,
        targets,
        transformations=transformations,
        overrides=[*by_label(), *overrides],
        custom={"spanNulls": True} if all(metric in logged for metric in chart.metrics) else None,
        empty="These runs have no such figures on this axis.",
        width=width,
        height=10,
    )


def _target(chart: ViewChart, metric: str, logged: Collection[str], title: str, ref: str) -> Json:
    runs, metrics = literals(chart.runs), literals([metric])
    if metric in logged:
        return parts.software_curves(runs, metrics, title=title, ref=ref)
    options = f", {literals(chart.scopes) if chart.scopes else 'null'}"
    if chart.by == "workload":
        return parts.workload_curve(_workloads(chart), metrics, title=title, options=options, ref=ref)
    return parts.run_curves(runs, metrics, title=title, options=options, ref=ref)
