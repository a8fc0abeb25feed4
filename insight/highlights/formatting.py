"""Formatting of phases and repetitions as sentences with values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hypergauge.insight.highlights.phases import Phase
from hypergauge.insight.highlights.repetition import Node, Repetition, unfolded
from hypergauge.insight.highlights.signals import Signals
from hypergauge.sql.queries.report import Phase as Tracked

__all__ = ["Formatter", "Line", "lasting"]

Points = npt.NDArray[np.bool_]

_WEIGHTS = {"initialization": 0.7, "training": 0.6, "checkpoint": 0.6, "pause": 0.6}
# A tracked and a detected phase are the same if they overlap for this share of their joint time.
_SAME = 0.5
_VALUES, _FAR_APART = 3, 4.0


@dataclass(frozen=True, slots=True)
class Line:
    """A line on a run; `start` and `end` are seconds since its start. See `hypergauge.sql.runs.highlights.Highlight`."""

    start: float
    end: float
    kind: str
    text: str
    weight: float


def lasting(seconds: float) -> str:
    """Return a duration for a sentence: ``0.4 s``, ``30 s``, ``3 min 20 s``, ``2 h 5 min``."""
    if seconds < 10:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest} s"
    hours, left = divmod(minutes, 60)
    return f"{hours} h {left} min" if hours else f"{minutes} min {rest} s" if rest else f"{minutes} min"


class Formatter:
    """Formatter of findings.

    Parameters
    ----------
    points
        Curves on the scale on which a significant difference is 1.
    tracked
        Phases that the run tracked; simultaneous detected phases take their names.
    """

    def __init__(
        self, signals: Signals, points: npt.NDArray[np.float64], found: Sequence[Phase], tracked: Sequence[Tracked] = ()
    ) -> None:
        self.signals = signals
        self._points = points
        self._found = found
        self._names = self._agreeing(tracked)

    def node(self, node: Node) -> Line:
        """Return the line of a phase or a repetition."""
        start, end = self.signals.time(node.first), self.signals.time(node.end)
        share = (end - start) / self.signals.duration
        if isinstance(node, Repetition):
            return Line(start, end, "repetition", self._repeated([node]), 0.9 + 0.1 * share)
        what = "nothing changed" if len(self._found) == 1 and node.kind == "level" else self._named(node.kind)
        values = ", ".join(self._values(self._where([node]), node.kind))
        kind = "steady" if what == "nothing changed" else node.kind
        text = f"{what}: {values}" if what else values
        return Line(start, end, kind, text, min(1.0, _WEIGHTS.get(node.kind, 0.5) + 0.4 * share))

    def _repeated(self, nodes: Sequence[Node], of_phase: bool = False) -> str:
        """Return the text of nodes with the same position in each round of a repetition."""
        if not isinstance(nodes[0], Repetition):
            seconds = [self.signals.time(node.end) - self.signals.time(node.first) for node in nodes]
            values = ", ".join(self._values(self._where(nodes), nodes[0].kind)[:2])
            return f"{lasting(float(np.median(seconds)))} of {self._named(nodes[0].kind) or 'that'} ({values})"
        rounds = [one for node in nodes if isinstance(node, Repetition) for one in node.rounds]
        parts = [self._repeated([one[at] for one in rounds], of_phase=True) for at in range(len(rounds[0]))]
        words = f"{len(nodes[0].rounds)} times: {', '.join(parts)}"
        return f"({words})" if of_phase else words

    def _where(self, nodes: Sequence[Node]) -> Points:
        where = np.zeros(len(self._points), np.bool_)
        for phase in (one for node in nodes for one in unfolded(node)):
            where[phase.first : phase.end] = True
        return where

    def _values(self, where: Points, what: str) -> list[str]:
        """Return the main signal's value at some points, and those that differ most from elsewhere."""
        signals, main = self.signals.signals, self.signals.main
        others = [at for at in range(len(signals)) if at != main]
        if not where.all():
            apart = np.abs(self._points[where].mean(axis=0) - self._points[~where].mean(axis=0))
            others = [at for at in others if apart[at] >= 1]
            # Rates and stocks first, because power follows utilization.
            others.sort(
                key=lambda at: (-min(apart[at], _FAR_APART), not signals[at].is_rate, not signals[at].is_stock, at)
            )
            others.sort(key=lambda at: not (what == "checkpoint" and signals[at].quantity == "disk_write"))
        phrases = []
        for at in [main, *others]:
            signal = signals[at]
            # Memory accumulates, so its level near the end counts.
            value = float(np.percentile(signal.value[where], 90) if signal.is_stock else signal.value[where].mean())
            if at == main or value >= signal.least or not signal.is_rate:
                phrases.append(signal.phrase(value))
        return phrases[: _VALUES + where.all()]

    def _named(self, kind: str) -> str:
        """Return the name of a kind of phase, with the run's own name if it tracks one."""
        words = "" if kind == "level" else kind
        name = self._names.get(kind)
        return words if name in (None, kind) else f"{words} ({name})"

    def _agreeing(self, tracked: Sequence[Tracked]) -> dict[str, str]:
        """Return by kind the name of the simultaneous tracked phases."""
        masks: dict[str, Points] = {}
        for one in tracked:
            inside = (self.signals.times >= one.start) & (self.signals.times < one.start + one.seconds)
            masks[one.name] = masks.get(one.name, np.zeros(len(inside), np.bool_)) | inside
        names = {}
        for kind in dict.fromkeys(phase.kind for phase in self._found if phase.kind != "level"):
            where = self._where([phase for phase in self._found if phase.kind == kind])
            shares = {name: (mask & where).sum() / max(1, (mask | where).sum()) for name, mask in masks.items()}
            if shares and (best := max(shares, key=shares.__getitem__)) and shares[best] >= _SAME:
                names[kind] = best
        return names
