"""Charts for tests of pictures, without a database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hypergauge.insight.charts.bars import Bar, Bars
from hypergauge.insight.charts.chart import Chart, Series
from hypergauge.insight.charts.parallel import Dimension, Parallel, Track
from hypergauge.insight.charts.parameters import in_order, logarithmic, number
from hypergauge.sql.queries.charts.chart_styles import ChartStyle
from hypergauge.sql.queries.notices import Notice

__all__ = ["bar", "bars", "chart", "notice", "parallel", "series", "style", "track"]


def notice(text: str) -> Notice:
    """Return a notice with this text."""
    return Notice("simulated_gpu", "warning", [], {}, text)


def style(label: str) -> ChartStyle:
    """Return the style of a run by its position, as if the runs of a workload had started in this order."""
    nth = int(label.split()[0].split("@")[0].rpartition("/")[2]) - 1
    return ChartStyle(nth % 12, nth // 12 % 3)


def series(label: str, value: Sequence[float], spread: float = 0.1, **fields: Any) -> Series:
    """Return a curve with a point per second; its samples lie within a share of `spread` around it."""
    values = np.array(value, np.float64)
    return Series(
        **{
            "label": label, "runs": (f"{abs(hash(label)):032x}",), "style": style(label), "metric": "gpu_power", "unit": "watts", "scope": "instance",
            "x": np.arange(len(values), dtype=np.float64), "value": values, "low": (1 - spread) * values, "high": (1 + spread) * values,
            "simulated": False, "profiled": False, "ended_early": False, **fields,
        }
    )  # fmt: skip


def chart(*some: Series, **fields: Any) -> Chart:
    """Return a chart of these curves."""
    metrics = tuple(dict.fromkeys(one.metric for one in some))
    return Chart(
        **{"by": "run", "align": "time", "metrics": metrics, "series": some, "left_out": (), "notices": (), **fields}
    )


def bar(label: str, value: float, **fields: Any) -> Bar:
    """Return a run's summary, with samples around its mean."""
    return Bar(
        **{
            "label": label, "runs": (f"{abs(hash(label)):032x}",), "style": style(label), "metric": "gpu_power", "unit": "watts", "scope": "instance", "value": value, "low": value / 2,
            "high": value * 2, "p95": value * 1.5, "simulated": False, "profiled": False, **fields,
        }
    )  # fmt: skip


def bars(*some: Bar, **fields: Any) -> Bars:
    """Return a chart of these bars."""
    metrics = tuple(dict.fromkeys(one.metric for one in some))
    return Bars(**{"by": "run", "metrics": metrics, "bars": some, "left_out": (), "notices": (), **fields})


def parallel(*some: Track, units: Mapping[str, str], **fields: Any) -> Parallel:
    """Return runs on parallel axes, with their parameters in the order of the first one."""
    names = dict.fromkeys(name for one in some for name in one.params)
    made = []
    for name in names:
        texts = in_order(one.params[name] for one in some if name in one.params)
        numbers = [x for text in texts if (x := number(text)) is not None]
        numeric = len(numbers) == len(texts)
        made.append(Dimension(name, () if numeric else tuple(texts), numeric and logarithmic(numbers)))
    return Parallel(
        **{
            "dimensions": tuple(made), "metrics": tuple(units), "units": units, "tracks": some, "best": 0, "worst": len(some) - 1,
            "direction": -1, "left_out": (), "notices": (), **fields,
        }
    )  # fmt: skip


def track(label: str, params: Mapping[str, str], results: Mapping[str, float], status: str = "finished") -> Track:
    """Return the line of a run."""
    ended_early = status not in ("finished", "running")
    return Track(
        label,
        f"{abs(hash(label)):032x}",
        status,
        style(label),
        params,
        results,
        ended_early,
        simulated=False,
        profiled=False,
    )
