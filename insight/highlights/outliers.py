"""Outliers of a run: moments, odd rounds, lasting changes, drift, gaps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from hypergauge.insight.highlights.formatting import Line, lasting
from hypergauge.insight.highlights.phases import Phase, similar
from hypergauge.insight.highlights.repetition import Repetition
from hypergauge.insight.highlights.segments import spikes
from hypergauge.insight.highlights.signals import Signal, Signals

__all__ = ["changes", "gaps", "moments", "odd_rounds", "trends"]

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

# More changes within one training become one line.
_FEW = 3
# An odd round differs by this multiple of the usual deviation.
_FAR = 6.0
# A drift has these shares of its change in each fifth of the time.
_LEAST_OF_FIFTH, _MOST_OF_FIFTH = 0.05, 0.6
_DRIFT = 2.0


def changes(signals: Signals, points: Floats, phase: Phase) -> list[Line]:
    """Return the lasting changes of level within a phase."""
    pieces = list(pairwise([*phase.pieces, phase.end]))
    means = [points[first:end].mean(axis=0) for first, end in pieces]
    if len(pieces) > _FEW + 2:
        return [_restless(signals, means, pieces)]
    found = []
    at = 1
    while at < len(pieces):
        (first, end), before = pieces[at], means[at - 1]
        if at + 1 < len(pieces) and similar(before, means[at + 1]) and _is_short(pieces[at - 1 : at + 2]):
            found.append(_back_and_forth(signals, means[at] - before, pieces[at - 1], (first, end)))
            at += 2
            continue
        found.append(_to_another(signals, means[at] - before, pieces[at - 1], (first, end)))
        at += 1
    return found


def _is_short(three: Sequence[tuple[int, int]]) -> bool:
    before, length, after = (end - first for first, end in three)
    return length < min(before, after) / 2


def _most_changed(change: Floats) -> list[int]:
    return [int(at) for at in np.argsort(-np.abs(change), kind="stable")[:2] if abs(change[at]) >= 1] or [
        int(np.abs(change).argmax())
    ]


def _means(signal: Signal, *pieces: tuple[int, int]) -> list[float]:
    return [float(signal.value[first:end].mean()) for first, end in pieces]


def _moved(signals: Signals, change: Floats, before: tuple[int, int], after: tuple[int, int]) -> str:
    """Return the largest changes from one piece to another."""
    parts = []
    for at in _most_changed(change):
        old, new = _means(signals.signals[at], before, after)
        parts.append(signals.signals[at].change_phrase(new, old))
    return ", ".join(parts)


def _to_another(signals: Signals, change: Floats, before: tuple[int, int], after: tuple[int, int]) -> Line:
    start, end = signals.time(after[0]), signals.time(after[1])
    weight = 0.35 + 0.4 * min(1.0, float(np.abs(change).max()) / 10)
    return Line(start, end, "change", _moved(signals, change, before, after), weight)


def _back_and_forth(signals: Signals, change: Floats, before: tuple[int, int], off: tuple[int, int]) -> Line:
    start, end = signals.time(off[0]), signals.time(off[1])
    return Line(start, end, "outlier", f"for {lasting(end - start)} {_moved(signals, change, before, off)}", 0.55)


def _restless(signals: Signals, means: Sequence[Floats], pieces: Sequence[tuple[int, int]]) -> Line:
    at = int(np.abs(np.diff(np.array(means), axis=0)).sum(axis=0).argmax())
    signal = signals.signals[at]
    levels = sorted(_means(signal, *pieces))
    text = f"{len(pieces) - 1} changes of level: {signal.label} between {signal.formatted(levels[0])} and {signal.formatted(levels[-1])}"
    return Line(signals.time(pieces[0][0]), signals.time(pieces[-1][1]), "change", text, 0.5)


def odd_rounds(signals: Signals, repeated: Repetition) -> Iterator[Line]:
    """Yield the phases of a repetition that took far longer or shorter than in other rounds."""
    lengths = [signals.time(one[-1].end) - signals.time(one[0].first) for one in repeated.rounds]
    whole = float(np.median(lengths))
    for position, node in enumerate(repeated.rounds[0]):
        nodes = [one[position] for one in repeated.rounds]
        seconds = np.array([signals.time(one.end) - signals.time(one.first) for one in nodes])
        usual = float(np.median(seconds))
        spread = float(np.median(np.abs(seconds - usual))) / 0.6745
        off = np.abs(seconds - usual)
        # Longer by whole rounds: it holds rounds too short for detection.
        more = (seconds - usual) / whole
        missed = (more > 0.5) & (np.abs(more - np.rint(more)) < 0.15)
        # The first and the last round may be incomplete.
        for at in np.flatnonzero((off > max(_FAR * spread, usual / 4, 3 * signals.step)) & ~missed):
            if 0 < at < len(nodes) - 1 and isinstance(node, Phase):
                start, end = signals.time(nodes[at].first), signals.time(nodes[at].end)
                text = f"{node.kind} {at + 1} of {len(nodes)} took {lasting(end - start)}, usually {lasting(usual)}"
                yield Line(start, end, "outlier", text, 0.55)


def trends(signals: Signals, points: Floats, found: Sequence[Phase]) -> Iterator[Line]:
    """Yield steady growth or decline over the training, or over a run without phases."""
    where = np.zeros(len(points), np.bool_)
    for phase in found:
        if phase.kind == "training" or len(found) == 1:
            where[phase.first : phase.end] = True
    if where.sum() < 20:
        return
    fifths = np.array_split(np.flatnonzero(where), 5)
    levels = np.array([points[fifth].mean(axis=0) for fifth in fifths])
    for at, signal in enumerate(signals.signals):
        change = levels[-1, at] - levels[0, at]
        if abs(change) < _DRIFT or signal.is_rate:
            continue
        shares = np.diff(levels[:, at]) / change
        if shares.min() >= _LEAST_OF_FIFTH and shares.max() <= _MOST_OF_FIFTH:
            ends = fifths[0][: len(fifths[0]) // 4], fifths[-1][-(len(fifths[-1]) // 4) :]
            first, last = (float(signal.value[some].mean()) for some in ends)
            grew = "grew" if change > 0 else "fell"
            text = f"{signal.label} {grew} all the time, from {signal.formatted(first)} to {signal.formatted(last)}"
            start, end = signals.time(int(fifths[0][0])), signals.time(int(fifths[-1][-1]) + 1)
            yield Line(start, end, "trend", text, 0.45 + 0.3 * min(1.0, abs(change) / 10))


def moments(signals: Signals, off: npt.NDArray[np.bool_]) -> list[Line]:
    """Return momentary outliers; `off` has the shape of the curves. Simultaneous outliers make one line."""
    groups: list[tuple[Indices, list[str], float]] = []
    for at, signal in enumerate(signals.signals):
        usual = float(np.median(signal.value))
        for points, extreme in _directions(signal, off[:, at], usual):
            words = signal.change_phrase(extreme, usual)
            weight = 0.1 if signal.is_rate else 0.3 if at == signals.main else 0.2
            for number, (others, phrases, most) in enumerate(groups):
                near = np.isin(others, np.concatenate([points - 1, points, points + 1])).mean()
                if near >= 0.5 and len(points) <= 2 * len(others):
                    groups[number] = (others, [*phrases, words][:2], max(most, weight))
                    break
            else:
                groups.append((points, [words], weight))
    return [_moment(signals, points, phrases, weight) for points, phrases, weight in groups]


def _directions(signal: Signal, off: npt.NDArray[np.bool_], usual: float) -> Iterator[tuple[Indices, float]]:
    """Yield the points of upward and of downward outliers, each with its extreme."""
    scaled = [signal.scaled(one) for one in (signal.high, signal.low)]
    # A point of a long run has several samples; one of them may be the outlier.
    off = off | spikes(np.column_stack(scaled)).any(axis=1)
    middle = float(signal.scaled(np.array([usual]))[0])
    up, down = (np.flatnonzero(off & (sign * (one - middle) >= 2)) for sign, one in zip((1, -1), scaled, strict=True))
    down = np.setdiff1d(down, up)
    if len(up):
        yield up, float(signal.high[up].max())
    if len(down):
        yield down, float(signal.low[down].min())


def _moment(signals: Signals, points: Indices, phrases: Sequence[str], weight: float) -> Line:
    start, end = signals.time(int(points[0])), signals.time(int(points[-1]) + 1)
    if len(points) == 1:
        return Line(start, end, "outlier", f"for a moment {', '.join(phrases)}", weight + 0.1)
    apart = np.diff(signals.times[points])
    every = float(np.median(apart))
    regular = len(points) > 3 and np.median(np.abs(apart - every)) <= 0.1 * every
    often = f"{len(points)} moments" + (f", every {lasting(every)}" if regular else "")
    return Line(start, end, "outlier", f"{often}: {', '.join(phrases)}", weight)


def gaps(signals: Signals) -> Iterator[Line]:
    """Yield the gaps in the measurements."""
    missing = sum(end - start for start, end in signals.gaps)
    weight = min(1.0, 0.5 + missing / signals.duration)
    if len(signals.gaps) > _FEW:
        text = f"nothing was measured {len(signals.gaps)} times, for {lasting(missing)} together"
        yield Line(signals.gaps[0][0], signals.gaps[-1][1], "gap", text, weight)
        return
    for start, end in signals.gaps:
        yield Line(start, end, "gap", f"nothing was measured for {lasting(end - start)}", weight)
