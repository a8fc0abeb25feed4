"""Costs of measuring for a training: repetitions with each choice of exporters, in blocks with a repetition without.

A calibration is Stein's two-stage procedure (1945). The first `PILOT` blocks determine how many blocks it has, by their spread alone. A
stop as soon as the intervals happen to be small would favour spreads that are too small by chance: intervals of 95 % would cover 91 %.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scipy.special import stdtrit

from hypergauge.insight.sharing.ratio import CONFIDENCE, Ratio

__all__ = ["BASELINE", "PILOT", "Cost", "Repetition", "blocks_needed", "costs"]

# Choice of the repetitions that all others are compared with.
BASELINE = "none"
# Blocks of the pilot. Fewer make the interval of many blocks wide: Student's t of 5 degrees of freedom is 2.6, and of 3 it is 3.2.
PILOT = 6


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
        """Half of the width of the slow-down's interval, on the logarithm; infinite without one."""
        if self.slowdown is None:
            return 0.0
        if self.slowdown.low is None or self.slowdown.high is None:
            return float("inf")
        return math.log((1 + self.slowdown.high) / (1 + self.slowdown.low)) / 2


def costs(measured: Mapping[str, Sequence[Repetition]]) -> list[Cost]:
    """Return the cost of each choice, in order; `measured` has repetitions of the baseline, in the same blocks.

    A slow-down is the geometric mean of the ratios within the blocks, so that a drift of the host's speed does not widen its interval.
    """
    seconds, by_step = _seconds(measured)
    return [
        Cost(
            listeners,
            len(some),
            "step" if by_step else "run",
            statistics.fmean(seconds[listeners]),
            None if listeners == BASELINE else _slowdown(_changes(seconds, listeners)),
            _shortest(some),
            statistics.median(one.cpu_share for one in some),
            statistics.median(one.memory_bytes for one in some),
        )
        for listeners, some in measured.items()
        if some
    ]


def blocks_needed(measured: Mapping[str, Sequence[Repetition]], within: float) -> int:
    """Return the number of blocks, `PILOT` or more, for intervals of at most `within` on either side of the logarithm.

    The pilot's spreads determine it, so it is the same after each later block.

    Parameters
    ----------
    measured
        Repetitions by choice, at least those of the pilot.
    """
    seconds, _ = _seconds({listeners: some[:PILOT] for listeners, some in measured.items()})
    spread = max(
        (statistics.stdev(_changes(seconds, listeners)) for listeners in seconds if listeners != BASELINE), default=0.0
    )
    return max(PILOT, math.ceil((_quantile(PILOT) * spread / within) ** 2)) if within else sys.maxsize


def _seconds(measured: Mapping[str, Sequence[Repetition]]) -> tuple[dict[str, list[float]], bool]:
    """Return the seconds of each repetition by choice, and whether they are those of a step."""
    by_step = all(one.step_seconds is not None for some in measured.values() for one in some)
    return {
        listeners: [one.step_seconds if by_step and one.step_seconds is not None else one.duration for one in some]
        for listeners, some in measured.items()
    }, by_step


def _changes(seconds: Mapping[str, Sequence[float]], listeners: str) -> list[float]:
    """Return the logarithms of a choice's ratio to the baseline in each complete block."""
    return [math.log(mine / base) for mine, base in zip(seconds[listeners], seconds[BASELINE], strict=False)]


def _slowdown(changes: Sequence[float]) -> Ratio:
    """Return the relative change with its interval, which holds whenever the calibration ends.

    From the pilot on, the interval has the pilot's degrees of freedom. That of Stein has its spread as well; the spread of all blocks
    counts if it is larger, such as for a host that became busy.
    """
    mean = statistics.fmean(changes)
    if len(changes) < 2:
        return Ratio(math.expm1(mean))
    spread = max(statistics.stdev(changes), statistics.stdev(changes[:PILOT]))
    half = _quantile(min(len(changes), PILOT)) * spread / math.sqrt(len(changes))
    return Ratio(math.expm1(mean), math.expm1(mean - half), math.expm1(mean + half))


def _quantile(count: int) -> float:
    return float(stdtrit(count - 1, (1 + CONFIDENCE) / 2))


def _shortest(some: Sequence[Repetition]) -> dict[str, float]:
    names = sorted({name for one in some for name in one.exporters})
    return {name: min(one.exporters[name] for one in some if name in one.exporters) for name in names}
