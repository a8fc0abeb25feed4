"""Phases of a run, detected in its curves: initialization, training, evaluation, checkpoint, pause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from hypergauge.insight.highlights.segments import noise_of
from hypergauge.insight.highlights.signals import Signals

__all__ = ["Phase", "phases", "scaled", "similar"]

Floats = npt.NDArray[np.float64]

# Largest difference of pieces of the same state, on the scale on which 1 is significant.
_ALIKE = 2.0
# Idle: below this share of the training's activity.
_IDLE = 0.25
# Memory is filling up while below this share of the next piece's.
_FILLED = 0.8
# A checkpoint writes this many times (as a power of two) as much as the training.
_MORE_WRITTEN = 2.0


@dataclass(frozen=True, slots=True)
class Phase:
    """Phase of a run from point `first` to before `end`; `pieces` are the starts of its pieces."""

    kind: str
    first: int
    end: int
    pieces: tuple[int, ...]


def scaled(signals: Signals) -> Floats:
    """Return the curves, shape ``(n, k)``, on the scale on which a significant difference is 1."""
    return np.column_stack([signal.scaled(signal.value) for signal in signals.signals])


def similar(one: Floats, other: Floats) -> bool:
    """Return whether two states are the same."""
    return bool(np.max(np.abs(one - other), initial=0) <= _ALIKE)


def phases(signals: Signals, points: Floats, edges: Sequence[int]) -> list[Phase]:
    """Return the phases of a run; consecutive pieces of one kind are one phase.

    Training is the state with the largest product of time and activity. A shorter recurring state is evaluation, or a
    checkpoint if the run is idle and writes. Initialization precedes the first training. A run with one state, or without
    activity, has no phases: its pieces are ``level``.
    """
    pieces = list(pairwise(edges))
    means = np.array([points[first:end].mean(axis=0) for first, end in pieces])
    lengths = np.array([signals.time(end) - signals.time(first) for first, end in pieces])
    if len(pieces) == 1 or means[:, signals.main].max() < 2:
        kinds = ["level"] * len(pieces)
    else:
        # Noise makes means of few points differ.
        kinds = _kinds(signals, means / np.maximum(1, noise_of(points).point), lengths)
    found: list[Phase] = []
    for kind, (first, end) in zip(kinds, pieces, strict=True):
        if found and found[-1].kind == kind != "level":
            last = found.pop()
            found.append(Phase(kind, last.first, end, (*last.pieces, first)))
        else:
            found.append(Phase(kind, first, end, (first,)))
    return found


def _kinds(signals: Signals, means: Floats, lengths: Floats) -> list[str]:
    # Memory is not a measure of activity, and grows.
    does = [at for at, signal in enumerate(signals.signals) if not signal.is_stock]
    activity = means[:, signals.main]
    states = _states(means[:, does or [signals.main]])
    work = np.bincount(states, lengths * activity)
    most = int(work.argmax())
    usual = float(np.average(activity[states == most], weights=lengths[states == most]))
    trains = np.isin(states, [state for state in np.unique(states) if _trains(state, most, states, activity, lengths)])
    trains &= activity >= _IDLE * usual
    first = _begins(signals, means, lengths, np.flatnonzero(states == most), trains, usual)
    # Pieces at the end with less than half of the usual activity are not training.
    last = int(np.flatnonzero(trains & (activity >= usual / 2))[-1])
    trains[last + 1 :] = False
    writes = next((at for at, signal in enumerate(signals.signals) if signal.quantity == "disk_write"), None)
    kinds = []
    for at in range(len(means)):
        if at < first:
            kinds.append("initialization")
        elif trains[at]:
            kinds.append("training")
        elif activity[at] >= _IDLE * usual and (states == states[at]).sum() > 1:
            kinds.append("evaluation")
        elif writes is not None and means[at, writes] >= means[trains, writes].mean() + _MORE_WRITTEN:
            kinds.append("checkpoint")
        else:
            kinds.append("ending" if at > last else "pause")
    return kinds


def _begins(
    signals: Signals, means: Floats, lengths: Floats, busiest: npt.NDArray[np.int64],
    trains: npt.NDArray[np.bool_], usual: float,
) -> int:  # fmt: skip
    """Return the index of the first piece of training.

    Earlier pieces than the first of the `busiest` ones count if they use a GPU about as much. Without such use of a GPU, a
    piece before a large growth of memory belongs to initialization.
    """
    main = signals.signals[signals.main].quantity
    first = int(busiest[0])
    while first > 0 and trains[first - 1] and main.startswith("gpu") and means[first - 1, signals.main] >= 0.8 * usual:
        first -= 1
    holds = [at for at, signal in enumerate(signals.signals) if signal.is_stock]
    while (
        first < busiest[-1]
        and lengths[: first + 1].sum() < lengths.sum() / 2
        and not (main.startswith("gpu") and means[first, signals.main] >= 0.8 * usual)
        and (means[first, holds] < _FILLED * means[first + 1, holds]).any()
    ):
        first += 1
    return first


def _states(means: Floats) -> npt.NDArray[np.int64]:
    """Return the number of each piece's state, from 0."""
    from scipy.cluster.hierarchy import fcluster, linkage

    tree = linkage(means, method="average", metric="chebyshev")
    states: npt.NDArray[np.int64] = np.unique(fcluster(tree, _ALIKE, criterion="distance"), return_inverse=True)[1]
    return states


def _trains(state: int, most: int, states: npt.NDArray[np.int64], activity: Floats, lengths: Floats) -> bool:
    """Return whether a state is training, perhaps at another pace: not a shorter, or calmer and adjacent, recurring one."""
    mine, theirs = states == state, states == most
    if state == most or mine.sum() < 2:
        return True
    shorter = np.median(lengths[mine]) < 0.8 * np.median(lengths[theirs])
    at = np.flatnonzero(mine)
    beside = np.mean([theirs[max(0, one - 1)] or theirs[min(len(states) - 1, one + 1)] for one in at])
    calmer = activity[mine].mean() < activity[theirs].mean()
    return not (shorter or (calmer and beside >= 0.5))
