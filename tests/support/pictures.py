"""Charts for tests of pictures, without a database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hypergauge.insight.charts.bars import Bar, Bars
from hypergauge.insight.charts.chart import Chart, Series

__all__ = ["bar", "bars", "chart", "series"]


def series(label: str, value: Sequence[float], spread: float = 0.1, **fields: Any) -> Series:
    """Return a curve with a point a second; its samples lie within a share of `spread` around it."""
    figures = np.array(value, np.float64)
    return Series(
        **{
            "label": label, "runs": (f"{abs(hash(label)):032x}",), "metric": "gpu_power", "unit": "watts", "scope": "instance",
            "x": np.arange(len(figures), dtype=np.float64), "value": figures, "low": (1 - spread) * figures, "high": (1 + spread) * figures,
            "simulated": False, "profiled": False, **fields,
        }
    )  # fmt: skip


def chart(*some: Series, **fields: Any) -> Chart:
    """Return these curves as they are drawn together."""
    metrics = tuple(dict.fromkeys(one.metric for one in some))
    return Chart(
        **{"by": "run", "align": "time", "metrics": metrics, "series": some, "left_out": (), "notes": (), **fields}
    )


def bar(label: str, value: float, **fields: Any) -> Bar:
    """Return what a run came to, with samples around its mean."""
    return Bar(
        **{
            "label": label, "metric": "gpu_power", "unit": "watts", "scope": "instance", "value": value, "low": value / 2,
            "high": value * 2, "p95": value * 1.5, "simulated": False, "profiled": False, **fields,
        }
    )  # fmt: skip


def bars(*some: Bar, **fields: Any) -> Bars:
    """Return these bars as they are drawn together."""
    metrics = tuple(dict.fromkeys(one.metric for one in some))
    return Bars(**{"by": "run", "metrics": metrics, "bars": some, "left_out": (), "notes": (), **fields})
