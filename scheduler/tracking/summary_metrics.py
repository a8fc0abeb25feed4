"""Names of the metrics of a run's summary in MLflow.

They begin with ``system/``, so that MLflow shows them among the system metrics. MLflow's own names have units
(``system/cpu_utilization_percentage``) and none of these statistics, so the names never collide. Units are SI.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from hypergauge.sql.queries.summaries import Summary

__all__ = ["is_summary_metric", "summary_metrics"]

# Metric names by quantity and statistic of the summary.
_STATISTICS = {
    "cpu_usage": {"mean": "cpu_usage_mean", "max": "cpu_usage_max", "total": "cpu_time_total"},
    "memory_used": {"mean": "memory_used_mean", "max": "memory_used_max"},
    **{
        quantity: {"mean": f"{quantity}_mean", "max": f"{quantity}_max"}
        for quantity in ("gpu_utilization", "gpu_sm_active", "gpu_memory_used", "gpu_power")
    },
    **{f"{part}_energy_attributed": {"total": f"{part}_energy_total"} for part in ("gpu", "cpu", "dram", "system")},
}
_OWN = ("process", "instance")
# Markers in names of metrics that include other runs, or come from simulated devices.
_SHARED, _SIMULATED = "shared_", "simulated_"
_PREFIX = "system/"
_NAMES = frozenset(
    f"{_PREFIX}{simulated}{shared}{name}"
    for names in _STATISTICS.values()
    for name in names.values()
    for simulated in ("", _SIMULATED)
    for shared in ("", _SHARED)
)


def is_summary_metric(key: str) -> bool:
    """Return whether a metric in MLflow belongs to a summary, and not to a script."""
    return key in _NAMES


def summary_metrics(summaries: Iterable[Summary], *, simulated: bool) -> dict[str, float]:
    """Return the summary metrics of one run, by MLflow's names.

    Parameters
    ----------
    summaries
        Summaries of the run; the first of each quantity counts. Metrics of the host are left out, because they are not
        the run's. Metrics of a shared GPU cover the whole GPU and have a prefix:
        ``system/shared_gpu_utilization_mean``.
    simulated
        Whether the run's GPUs are simulated; names of their metrics then have the prefix ``simulated_``.
    """
    first: dict[str, Summary] = {}
    for summary in summaries:
        first.setdefault(summary.quantity, summary)
    found = {}
    for quantity, names in _STATISTICS.items():
        if quantity not in first or (one := first[quantity]).scope == "host":
            continue
        prefix = _SIMULATED if simulated and quantity.startswith("gpu_") else ""
        prefix += "" if one.scope in _OWN else _SHARED
        for statistic, name in names.items():
            value: float | None = getattr(one, statistic)
            if value is not None and math.isfinite(value):
                found[f"{_PREFIX}{prefix}{name}"] = value
    return found
