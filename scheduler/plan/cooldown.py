"""Cooldown: the wait until a host is as it was before the first workload. A warm machine clocks lower.

What is waited for are the temperature and the power of a workload's GPUs, and the load of the host for a workload that
has none. What is not measured is not waited for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hypergauge.gpu import Gpu
from hypergauge.sql.queries.newest import Newest

__all__ = ["Cooldown", "Excess", "excesses"]

# How much more than before is as before: an amount, and a share.
_TOLERANCES = {"gpu_temperature": (3.0, 0.0), "gpu_power": (5.0, 0.1), "load": (0.5, 0.1)}
_UNITS = {"gpu_temperature": " °C", "gpu_power": " W", "load": ""}
# A figure that has not come for so long comes no more.
_STALE_SECONDS = 15.0
# After its start, an exporter's first figure takes this long at most.
_FIRST_SECONDS = 5.0
_POLL_SECONDS = 0.5

Figures = Mapping[tuple[str, str | None], float]


@dataclass(frozen=True, slots=True)
class Excess:
    """Difference from before. `now` is ``None`` where there is no sample since the last workload ended."""

    quantity: str
    gpu_uuid: str | None
    before: float
    now: float | None

    def __str__(self) -> str:
        unit = _UNITS[self.quantity]
        now = "not measured yet" if self.now is None else f"{self.now:.3g}{unit}"
        return f"{'load ' if self.quantity == 'load' else ''}{now} (before {self.before:.3g}{unit})"


def excesses(before: Figures, found: Sequence[Newest], since: float, now: float) -> list[Excess]:
    """Return what of `before` is not yet back within tolerance.

    Parameters
    ----------
    before
        By quantity and GPU, how it was before the first workload.
    found
        The newest figures.
    since
        When the last workload had ended, in Unix seconds; an older figure says nothing.
    now
        Unix seconds.
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
    """Holds back workloads until the machine has calmed down.

    Parameters
    ----------
    limit
        Seconds to wait at most before a workload.
    look
        Returns the newest figures of GPUs by UUID, and of the host.
    sleep, clock
        Those of the system.
    """

    def __init__(
        self,
        limit: float,
        look: Callable[[Sequence[str]], list[Newest]],
        *,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._limit, self._look, self._sleep, self._clock = limit, look, sleep, clock
        self._before: Figures | None = None

    def before_workload(self, gpus: Sequence[Gpu], all_gpus: Sequence[Gpu], say: Callable[[str], None]) -> None:
        """Remember how the machine is, the first time; from then on wait until it is so again.

        Parameters
        ----------
        gpus
            Those of the workload that is about to start.
        all_gpus
            Those of all workloads to come.
        say
            Told what is waited for, and for how long it was.
        """
        if self._before is None:
            self._before = self._first(all_gpus)
            if not self._before:
                say("starts without a cooldown: neither temperature nor power nor load of this host is measured")
            return
        uuids = {gpu.uuid for gpu in gpus}
        before = {
            (quantity, uuid): value
            for (quantity, uuid), value in self._before.items()
            if (uuid in uuids if uuids else uuid is None)
        }
        self._wait(before, gpus, say)

    def _first(self, gpus: Sequence[Gpu]) -> Figures:
        wanted = {gpu.uuid for gpu in gpus} | {None}
        deadline = self._clock() + _FIRST_SECONDS
        while True:
            found = self._look([gpu.uuid for gpu in gpus])
            if wanted <= {one.gpu_uuid for one in found} or self._clock() >= deadline:
                return {(one.quantity, one.gpu_uuid): one.value for one in found}
            self._sleep(_POLL_SECONDS)

    def _wait(self, before: Figures, gpus: Sequence[Gpu], say: Callable[[str], None]) -> None:
        since = self._clock()
        said = False
        while left := excesses(before, self._look([gpu.uuid for gpu in gpus]), since, self._clock()):
            if self._clock() - since >= self._limit:
                say(f"goes on after {self._limit:g} s without having cooled down: {_words(left, gpus)}")
                return
            if not said and all(one.now is not None for one in left):
                say(f"waits to cool down, {self._limit:g} s at most: {_words(left, gpus)}")
                said = True
            self._sleep(_POLL_SECONDS)
        if said:
            say(f"has cooled down after {self._clock() - since:.1f} s")


def _words(left: Sequence[Excess], gpus: Sequence[Gpu]) -> str:
    indices = {gpu.uuid: f"GPU {gpu.index} " for gpu in gpus}
    return ", ".join(f"{indices.get(one.gpu_uuid or '', '')}{one}" for one in left)
