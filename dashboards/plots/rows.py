"""Layout of values of whole runs: a row per run or workload, a panel per metric."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypergauge.dashboards.plots.axes import Axis, value_axis
from hypergauge.dashboards.plots.panels import Entry, entries, from_zero
from hypergauge.insight.charts.bars import Bar, Bars

__all__ = ["BarLayout", "BarPanel", "lay_out_bars"]

# Explanation of the marks.
_READ = {
    "run": "Dots: the mean; lines: from the least to the greatest sample; ticks: the 95th percentile",
    "workload": "Dots: the mean over the runs; lines: from the least to the greatest of them",
}


@dataclass(frozen=True, slots=True)
class BarPanel:
    """Values on one axis, in its unit, each with the index of its row; the axis begins at 0 if `from_zero`."""

    axis: Axis
    from_zero: bool
    bars: tuple[tuple[int, Bar], ...]


@dataclass(frozen=True, slots=True)
class BarLayout:
    """Layout of values: panels beside each other, and the entries of the rows."""

    panels: tuple[BarPanel, ...]
    rows: tuple[Entry, ...]
    notes: tuple[str, ...]


def lay_out_bars(found: Bars) -> BarLayout:
    """Return the layout of the values of runs or workloads, in their order."""
    keys, rows = entries(found.bars, found.labels)
    panels = []
    for metric in found.metrics:
        mine = [(key, one) for key, one in zip(keys, found.bars, strict=True) if one.metric == metric]
        if mine:
            unit = mine[0][1].unit
            axis = value_axis(metric, unit, max(abs(one.high) for _, one in mine))
            zero = from_zero(unit, min(one.low for _, one in mine))
            panels.append(BarPanel(axis, zero, tuple((key, _scaled(one, axis.size)) for key, one in mine)))
    logged = "; software metrics: the last value" if any(not one.unit for one in found.bars) else ""
    return BarLayout(tuple(panels), rows, (_READ[found.by] + logged, *(one.text for one in found.notices)))


def _scaled(one: Bar, size: float) -> Bar:
    p95 = None if one.p95 is None else one.p95 / size
    return replace(one, value=one.value / size, low=one.low / size, high=one.high / size, p95=p95)
