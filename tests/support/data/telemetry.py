"""Curves of trainings with known phases, with seeded noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from hypergauge.insight.highlights.signals import Signals, assembled
from hypergauge.sql.queries.charts.charts import Curve

Floats = npt.NDArray[np.float64]

GIB = 2.0**30
MIB = 2.0**20
# Levels of a training on a GPU in each phase: utilization, W, cores, bytes of memory, bytes per second.
LEVELS: Mapping[str, Mapping[str, float]] = {
    "initialization": {
        "gpu_utilization": 0.02, "gpu_power": 70, "cpu_usage": 1.2, "memory_used": 1 * GIB, "disk_read": 80 * MIB, "disk_write": 0,
    },
    "training": {
        "gpu_utilization": 0.92, "gpu_power": 310, "cpu_usage": 2.1, "memory_used": 6 * GIB, "disk_read": 4 * MIB, "disk_write": 0,
    },
    "evaluation": {
        "gpu_utilization": 0.55, "gpu_power": 190, "cpu_usage": 2.6, "memory_used": 6 * GIB, "disk_read": 8 * MIB, "disk_write": 0,
    },
    "checkpoint": {
        "gpu_utilization": 0.01, "gpu_power": 80, "cpu_usage": 1.0, "memory_used": 6 * GIB, "disk_read": 0, "disk_write": 400 * MIB,
    },
    "pause": {
        "gpu_utilization": 0.01, "gpu_power": 80, "cpu_usage": 0.1, "memory_used": 6 * GIB, "disk_read": 0, "disk_write": 0,
    },
}  # fmt: skip
NOISE = {"gpu_utilization": 0.03, "gpu_power": 8, "cpu_usage": 0.15, "memory_used": 8 * MIB, "disk_read": 3 * MIB, "disk_write": 0.2 * MIB}  # fmt: skip


def measured(
    parts: Sequence[tuple[str, float]], *, seed: int = 0, step: float = 1.0, noise: float = 1.0, levels: Mapping[str, Mapping[str, float]] = LEVELS,
) -> dict[str, Floats]:  # fmt: skip
    """Return values every `step` seconds of phases (name, seconds), by quantity."""
    random = np.random.default_rng(seed)
    ends = np.cumsum([seconds for _, seconds in parts])
    times = np.arange(0, ends[-1], step)
    which = np.searchsorted(ends, times, side="right")
    found = {}
    for quantity in next(iter(levels.values())):
        clean = np.array([levels[name][quantity] for name, _ in parts])[which]
        value = np.maximum(clean + noise * NOISE[quantity] * random.normal(size=len(times)), 0)
        found[quantity] = np.minimum(value, 1) if quantity == "gpu_utilization" else value
    return found


def signals(
    values: Mapping[str, Floats],
    *,
    step: float = 1.0,
    kept: npt.NDArray[np.bool_] | None = None,
    scope: str = "process",
) -> Signals:
    """Return curves as read from a database; those not `kept` are empty."""
    count = len(next(iter(values.values())))
    kept = np.ones(count, np.bool_) if kept is None else kept
    times = np.arange(count)[kept] * step
    curves = [
        Curve("20/1/1", quantity, scope, times.tolist(), *([value[kept].tolist()] * 3))
        for quantity, value in values.items()
    ]
    found = assembled(curves, step, count * step)
    assert found is not None
    return found


def coarser(values: Mapping[str, Floats], points: int) -> dict[str, Floats]:
    """Return curves with that many points, each the mean of several original ones."""
    return {name: np.array([part.mean() for part in np.array_split(value, points)]) for name, value in values.items()}
