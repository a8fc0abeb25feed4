"""Links from a saved view to a dashboard, with its selection in the address."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence, Set
from urllib.parse import urlencode

from hypergauge.core.errors import BadRequest
from hypergauge.insight.charts.view import Found, ViewChart

__all__ = ["view_link"]

_MIXED_SLOTS = 4


def view_link(found: Found, workload_ids: Sequence[int], logged: Set[str]) -> str:
    """Return path and query of the dashboard for a view.

    Parameters
    ----------
    workload_ids
        Workloads of the runs.
    logged
        Names of their software metrics.

    Raises
    ------
    BadRequest
        No dashboard can show the view.
    """
    charts = found.view.charts
    if any(chart.align != "time" or chart.scopes or chart.part for chart in charts):
        raise BadRequest("Grafana's dashboards align whole runs at their start and show the narrowest scope")
    [first, *others] = charts
    if not others and first.by == "workload" and logged.isdisjoint(first.metrics):
        uid, chosen = "bench-inter", [("metric", metric) for metric in first.metrics]
    elif not others and first.by == "run":
        uid = "bench-intra"
        chosen = [
            *(("run", run_id) for run_id in first.runs),
            *(("software" if metric in logged else "metric", metric) for metric in first.metrics),
        ]
    else:
        uid, chosen = "bench-mixed", list(_slots(charts, logged))
    experiments = dict.fromkeys(run.experiment_id for run in found.runs.values())
    longest = max((run.duration or 0.0 for run in found.runs.values()), default=0.0) or 3600
    query = [
        *(("var-experiment", str(one)) for one in experiments),
        *(("var-workload", str(one)) for one in workload_ids),
        *((f"var-{name}", value) for name, value in chosen),
        ("from", "0"),
        ("to", str(math.ceil(longest) * 1000)),
    ]
    return f"/d/{uid}?{urlencode(query)}"


def _slots(charts: Sequence[ViewChart], logged: Set[str]) -> Iterator[tuple[str, str]]:
    slots = [(chart, metric) for chart in charts for metric in chart.metrics]
    if len(slots) > _MIXED_SLOTS or any(chart.by != "run" or metric in logged for chart, metric in slots):
        raise BadRequest(f"Grafana's mixed dashboard shows {_MIXED_SLOTS} quantities at most, by run")
    for slot, (chart, metric) in enumerate(slots, 1):
        yield f"metric_{slot}", metric
        for run_id in chart.runs:
            yield f"run_{slot}", run_id
