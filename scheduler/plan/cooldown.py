"""Cooldown: a wait until the host has returned to its state before the first workload. A warm machine clocks lower.

The cooldown compares temperature and power of a workload's GPUs, or the host's load for a workload without GPUs. It
ignores metrics that no exporter measures.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hypergauge.gpu import Gpu
from hypergauge.sql.queries.live import NewestValue

__all__ = ["Cooldown", "Excess", "excesses"]

# Tolerance above the baseline, absolute and relative; the larger of the two applies.
_TOLERANCES = {"gpu_temperature": (3.0, 0.0), "gpu_power": (5.0, 0.1), "load": (0.5, 0.1)}
_UNITS = {"gpu_temperature": " °C", "gpu_power": " W", "load": ""}
# After this time without a sample, a metric counts as not measured.
_STALE_SECONDS = 15.0
# Wait for the first sample of an exporter that has just started.
_FIRST_SECONDS = 5.0
_POLL_SECONDS = 0.5

Values = Mapping[tuple[str, str | None], float]


@dataclass(frozen=True, slots=True)
class Excess:
    """Metric above its baseline. `now` is ``None`` without a sample since the last workload ended."""

    quantity: str
    gpu_uuid: str | None
    before: float
    now: float | None

    def __str__(self) -> str:
        unit = _UNITS[self.quantity]
        now = "not measured yet" if self.now is None else f"{self.now:.3g}{unit}"
        return f"{'load ' if self.quantity == 'load' else ''}{now} (before {self.before:.3g}{unit})"


def excesses(before: Values, found: Sequence[NewestValue], since: float, now: float) -> list[Excess]:
    """Return the metrics of `before` that are not yet back within tolerance.

    Parameters
    ----------
    before
        Values before the first workload, by quantity and GPU.
    found
        Newest values.
    since
        End of the last workload in Unix seconds; older values do not count.
    now
        Current time in Unix seconds.
    """
    newest = {(one.quantity, one.gpu_uuid): one for one in found}
    left = []
    for (quantity, gpu_uuid), value in before.items():
        one = newest.get((quantity, gpu_uuid))
        if one is None or now - max(one.at, since) > _STALE_SECONDS:
            continue
        amount, share = _TOLERANCES[quantity]
        if one.at < since:
            left.append(Excess(quantity, gpu_uuid, value, None))
        elif one.value > value + max(amount, share * value):
            left.append(Excess(quantity, gpu_uuid, value, one.value))
    return left


class Cooldown:
    """Delay before each workload until the machine has cooled down.

    Parameters
    ----------
    limit
        Longest wait before a workload, in seconds.
    look
        Function that returns the newest values of the host and of GPUs, given their UUIDs.
    sleep, clock
        Replacements of the system's functions, for tests.
    """

    def __init__(
        self,
        limit: float,
        look: Callable[[Sequence[str]], list[NewestValue]],
        *,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._limit, self._look, self._sleep, self._clock = limit, look, sleep, clock
        self._before: Values | None = None

    def before_workload(self, gpus: Sequence[Gpu], all_gpus: Sequence[Gpu], notify: Callable[[str], None]) -> None:
        """Store the state of the machine before the first workload; before later workloads, wait for that state.

        Parameters
        ----------
        gpus
            GPUs of the workload that is about to start.
        all_gpus
            GPUs of all remaining workloads.
        notify
            Receiver of messages about the wait.
        """
        if self._before is None:
            self._before = self._first(all_gpus)
            if not self._before:
                notify("starts without a cooldown: neither temperature nor power nor load of this host is measured")
            return
        uuids = {gpu.uuid for gpu in gpus}
        before = {
            (quantity, uuid): value
            for (quantity, uuid), value in self._before.items()
            if (uuid in uuids if uuids else uuid is None)
        }
        self._wait(before, gpus, notify)

    def _first(self, gpus: Sequence[Gpu]) -> Values:
        wanted = {gpu.uuid for gpu in gpus} | {None}
        deadline = self._clock() + _FIRST_SECONDS
        while True:
            found = self._look([gpu.uuid for gpu in gpus])
            if wanted <= {one.gpu_uuid for one in found} or self._clock() >= deadline:
                return {(one.quantity, one.gpu_uuid): one.value for one in found}
            self._sleep(_POLL_SECONDS)

    def _wait(self, before: Values, gpus: Sequence[Gpu], notify: Callable[[str], None]) -> None:
        since = self._clock()
        waits = False
        while left := excesses(before, self._look([gpu.uuid for gpu in gpus]), since, self._clock()):
            if self._clock() - since >= self._limit:
                notify(f"starts after {self._limit:g} s without having cooled down: {_words(left, gpus)}")
                return
            if not waits and all(one.now is not None for one in left):
                notify(f"waits to cool down, {self._limit:g} s at most: {_words(left, gpus)}")
                waits = True
            self._sleep(_POLL_SECONDS)
        if waits:
            notify(f"has cooled down after {self._clock() - since:.1f} s")


def _words(left: Sequence[Excess], gpus: Sequence[Gpu]) -> str:
    indices = {gpu.uuid: f"{gpu.label} " for gpu in gpus}
    return ", ".join(f"{indices.get(one.gpu_uuid or '', '')}{one}" for one in left)
