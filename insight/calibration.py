"""What measuring costs a training: repetitions with each choice of exporters, against those without."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hypergauge.insight.sharing.ratio import Ratio, ratio

__all__ = ["BASELINE", "Cost", "Repetition", "costs", "is_settled"]

# Choice of the repetitions that all others are compared with.
BASELINE = "none"


@dataclass(frozen=True, slots=True)
class Repetition:
    """One run of the training.

    Attributes
    ----------
    duration
        Seconds of the whole run.
    step_seconds
        Mean seconds of a step, without the run's start and end; ``None`` if it tracks none.
    exporters
        Seconds between scrapes by exporter that measured it.
    cpu_share
        Share of the host's cores that exporters and collector took meanwhile.
    memory_bytes
        Their resident memory; an exporter that nobody scrapes has some too.
    """

    duration: float
    step_seconds: float | None
    exporters: Mapping[str, float]
    cpu_share: float
    memory_bytes: float


@dataclass(frozen=True, slots=True)
class Cost:
    """Costs of one choice of exporters, over its repetitions.

    Attributes
    ----------
    per
        ``step`` if all repetitions of all choices track steps, else ``run``.
    seconds
        Mean seconds of a step or run.
    slowdown
        Relative change of the seconds against the baseline, with the interval; ``None`` for the baseline itself.
    exporters
        Seconds between scrapes by exporter, the shortest of all repetitions.
    cpu_share, memory_bytes
        Medians: the collector has work of its own now and then, which has nothing to do with the choice.
    """

    listeners: str
    repetitions: int
    per: str
    seconds: float
    slowdown: Ratio | None
    exporters: Mapping[str, float]
    cpu_share: float
    memory_bytes: float

    @property
    def half_width(self) -> float:
        """Half of the width of the slow-down's interval, as a relative change; infinite without one."""
        if self.slowdown is None:
            return 0.0
        if self.slowdown.low is None or self.slowdown.high is None:
            return float("inf")
        return (self.slowdown.high - self.slowdown.low) / 2


def costs(measured: Mapping[str, Sequence[Repetition]]) -> list[Cost]:
    """Return the cost of each choice, in order; `measured` has repetitions of the baseline."""
    every = [one for some in measured.values() for one in some]
    by_step = all(one.step_seconds is not None for one in every)
    seconds = {
        listeners: [one.step_seconds if by_step and one.step_seconds is not None else one.duration for one in some]
        for listeners, some in measured.items()
    }
    return [
        Cost(
            listeners,
            len(some),
            "step" if by_step else "run",
            statistics.fmean(seconds[listeners]),
            None if listeners == BASELINE else _change(ratio(seconds[listeners], [seconds[BASELINE]])),
            _shortest(some),
            statistics.median(one.cpu_share for one in some),
            statistics.median(one.memory_bytes for one in some),
        )
        for listeners, some in measured.items()
        if some
    ]


def is_settled(found: Sequence[Cost], within: float) -> bool:
    """Return whether all intervals are at most `within` on either side, as a relative change."""
    return all(one.half_width <= within for one in found)


def _change(found: Ratio) -> Ratio:
    low, high = (None if end is None else end - 1 for end in (found.low, found.high))
    return Ratio(found.value - 1, low, high)


def _shortest(some: Sequence[Repetition]) -> dict[str, float]:
    names = sorted({name for one in some for name in one.exporters})
    return {name: min(one.exporters[name] for one in some if name in one.exporters) for name in names}
