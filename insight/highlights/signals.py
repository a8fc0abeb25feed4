"""Signals of a run: one curve per resource, on one time axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from hypergauge.sql.queries.charts.charts import Curve, run_curves
from hypergauge.sql.queries.report import qualities
from hypergauge.sql.runs.selection import RunInfo
from hypergauge.sql.server.database import Connection

__all__ = ["Signal", "Signals", "read"]

Floats = npt.NDArray[np.float64]

# Detection is quadratic in points: 0.1 s for these. A run of six hours has one every 5 s.
MOST_POINTS = 4000
# Quantities, the first existing one of which counts; display name; smallest significant difference in the unit, and as a
# share of the run's usual value.
_MIB = 2.0**20
_QUANTITIES: tuple[tuple[tuple[str, ...], str, float, float], ...] = (
    (("gpu_sm_active",), "SMs", 0.05, 0.05),
    (("gpu_utilization",), "GPU", 0.05, 0.05),
    (("gpu_power",), "GPU power", 5.0, 0.05),
    (("cpu_usage",), "CPU", 0.1, 0.05),
    (("system_power", "cpu_power"), "power", 2.0, 0.05),
    (("gpu_memory_used",), "GPU memory", 64 * _MIB, 0.05),
    (("memory_used",), "memory", 16 * _MIB, 0.05),
    (("disk_read",), "disk reads", _MIB, 0),
    (("disk_write",), "disk writes", _MIB, 0),
    (("network_receive",), "network in", _MIB, 0),
    (("network_transmit",), "network out", _MIB, 0),
)
_STOCKS = ("memory_used", "gpu_memory_used")
_RATES = ("disk_read", "disk_write", "network_receive", "network_transmit")


@dataclass(frozen=True, slots=True)
class Signal:
    """A curve in the unit of its quantity; mean, minimum and maximum have the shape ``(n,)``.

    Attributes
    ----------
    name
        Short display name.
    least
        Smallest significant difference.
    """

    quantity: str
    scope: str
    name: str
    least: float
    value: Floats
    low: Floats
    high: Floats

    @property
    def is_rate(self) -> bool:
        """Return whether the signal is a rate in bytes per second, whose values span orders of magnitude."""
        return self.quantity in _RATES

    @property
    def is_stock(self) -> bool:
        """Return whether the signal is an amount that the run holds."""
        return self.quantity in _STOCKS

    def scaled(self, value: Floats) -> Floats:
        """Return values on the scale on which a significant difference is 1; a factor of 2 for rates."""
        return np.log2(1 + value / self.least) if self.is_rate else value / self.least

    def phrase(self, value: float) -> str:
        """Return a value in words: ``disk reads 80 MiB/s``, ``GPU at 93%``."""
        return f"{self.label}{'' if self._has_unit else ' at'} {self.formatted(value)}"

    def change_phrase(self, value: float, usual: float) -> str:
        """Return a change in words: ``GPU down to 3% from 93%``."""
        return (
            f"{self.label} {'up' if value > usual else 'down'} to {self.formatted(value)} from {self.formatted(usual)}"
        )

    @property
    def label(self) -> str:
        """Name, with the scope if it exceeds the run."""
        return self.name + {"host": " (host)", "device": " (shared)"}.get(self.scope, "")

    @property
    def _has_unit(self) -> bool:
        return not self.quantity.startswith("gpu_") or self.quantity in ("gpu_power", "gpu_memory_used")

    def formatted(self, value: float) -> str:
        """Return a value with its unit."""
        if self.is_rate or self.is_stock:
            return _bytes(value) + "/s" * self.is_rate
        if self.quantity == "cpu_usage":
            return f"{value:.1f} cores" if value < 10 else f"{value:.0f} cores"
        return f"{value:.0f} W" if self.quantity.endswith("power") else f"{value:.0%}"


@dataclass(frozen=True, slots=True)
class Signals:
    """The curves of a run.

    Attributes
    ----------
    times
        Shape ``(n,)``: seconds since the run's start, ascending; without points in gaps.
    step
        Seconds from one point to the next.
    duration
        Of the run, in seconds.
    gaps
        Intervals without measurements, in seconds.
    """

    times: Floats
    step: float
    duration: float
    signals: tuple[Signal, ...]
    gaps: tuple[tuple[float, float], ...]

    @property
    def main(self) -> int:
        """Index of the signal of activity: the GPU's if the run used one, else the CPU's."""
        for at, signal in enumerate(self.signals):
            if signal.quantity in ("gpu_sm_active", "gpu_utilization") and np.percentile(signal.value, 95) >= 0.1:
                return at
        return next((at for at, signal in enumerate(self.signals) if signal.quantity == "cpu_usage"), 0)

    def time(self, point: int) -> float:
        """Return the start of a point; the first starts with the run, and the one after the last at its end."""
        if point <= 0:
            return 0.0
        return float(self.times[point]) if point < len(self.times) else self.duration


def read(connection: Connection, run: RunInfo) -> Signals | None:
    """Return the curves of a run in the narrowest scope of each quantity; ``None`` without samples."""
    if run.started_at is None or not run.duration:
        return None
    [quality] = qualities(connection, [run.run_id])
    step = max(quality.interval_seconds or 1.0, run.duration / MOST_POINTS)
    step = round(step, 3) or 0.001
    quantities = [name for names, *_ in _QUANTITIES for name in names]
    curves = {curve.metric: curve for curve in run_curves(connection, [run.run_id], quantities, step, None, "time")}
    if run.simulated:
        curves.pop("gpu_power", None)
    if curves.keys() & {"gpu_sm_active", "gpu_utilization"}:  # the host's power adds little
        for name in ("system_power", "cpu_power"):
            curves.pop(name, None)
    if "gpu_sm_active" in curves:  # the better quantity, see docs/reference/quantities.md
        curves.pop("gpu_utilization", None)
    return assembled(list(curves.values()), step, run.duration)


def assembled(curves: Sequence[Curve], step: float, duration: float) -> Signals | None:
    """Return curves on a common axis; a missing value is the previous one."""
    by_quantity = {curve.metric: curve for curve in curves if len(curve.x)}
    if not by_quantity:
        return None
    every = np.concatenate([np.asarray(curve.x, np.float64) for curve in by_quantity.values()])
    # The last sample may come from the scrape after the run's end.
    positions = np.unique(np.rint(every[every < max(duration, step)] / step).astype(np.int64))
    if not len(positions):
        return None
    # Aggregates may be coarser than the requested step.
    usual = int(np.median(np.diff(positions))) if len(positions) > 1 else 1
    signals = []
    for names, name, least, share in _QUANTITIES:
        curve = next((by_quantity[name] for name in names if name in by_quantity), None)
        if curve is not None and (made := _signal(curve, positions, step, name, least, share)) is not None:
            signals.append(made)
    if not signals:
        return None
    bounds = np.concatenate([[-usual], positions, [round(duration / step)]])
    gaps = tuple(
        (max(0.0, float(before + usual) * step), min(float(after) * step, duration))
        for before, after in pairwise(bounds)
        if after - before > 4 * usual
    )
    times = (positions * step).astype(np.float64)
    return Signals(times, step * usual, duration, tuple(signals), gaps)


def _signal(
    curve: Curve, positions: npt.NDArray[np.int64], step: float, name: str, least: float, share: float
) -> Signal | None:
    at = np.rint(np.asarray(curve.x, np.float64) / step).astype(np.int64)
    value, low, high = (np.asarray(one, np.float64) for one in (curve.value, curve.low, curve.high))
    known = np.isfinite(value)
    if known.sum() < max(2, 0.2 * len(positions)):
        return None
    # The newest value at each point; before the first one, the first.
    newest = np.maximum(np.searchsorted(at[known], positions, side="right") - 1, 0)
    value, low, high = (one[known][newest] for one in (value, low, high))
    least = max(least, share * float(np.percentile(np.abs(value), 95)))
    return Signal(curve.metric, curve.scope, name, least, value, low, high)


def _bytes(value: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1000:
            return f"{value:.1f} {unit}" if abs(value) < 10 and unit not in ("B", "KiB") else f"{value:.0f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"
