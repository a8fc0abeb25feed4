"""Cost of sharing by run, and its summary in one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hypergauge.core.listing import listed
from hypergauge.insight.sharing.interference import Interference, Member, Set

__all__ = ["Cost", "costs", "sentence"]

# Smaller changes count as none, as in `Set.verdict`.
_EVEN = 0.02
# Longest list of names in the sentence.
_MOST_NAMED = 4


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of the runs beside a run.

    Attributes
    ----------
    ratio
        Time beside them relative to the time alone, over all repetitions.
    share
        Lost share of the run's time, from 0 to 1: a run that takes twice as long has lost half of its time.
    alone
        Labels of the runs alone.
    """

    ratio: float
    share: float
    alone: tuple[str, ...]


def costs(found: Interference) -> dict[str, Cost]:
    """Return the costs by label of the run. Runs whose configuration never ran alone are missing."""
    return {
        label: cost
        for one in found.sets
        for member in one.members
        if (cost := _cost(member)) is not None
        for label in member.runs
    }


def _cost(member: Member) -> Cost | None:
    if member.slowdown is None:
        return None
    ratio = member.slowdown.ratio.value
    # A slowdown over the overlap holds for that part of the run.
    part = member.together if member.over == "together" else 1.0
    return Cost(ratio, part * max(0.0, 1 - 1 / ratio), member.slowdown.alone.runs)


def sentence(found: Interference, names: Mapping[str, str]) -> str | None:
    """Return what sharing GPUs saved and cost runs, whose `names` are by label; ``None`` if unknown.

    The sentence names the set that saved most, and the number of sets.
    """
    known = [
        (one.makespan.ratio.value, one)
        for one in found.sets
        if one.makespan is not None
        and one.sharing != "host"
        and not names.keys().isdisjoint(label for member in one.members for label in member.runs)
    ]
    if not known:
        return None
    value, best = min(known, key=lambda pair: pair[0])
    many = f" Of {len(known)} sets, {sum(one.verdict == 'collocate' for _, one in known)} saved time."
    return _told(best, value, names) + many * (len(known) > 1)


def _told(one: Set, ratio: float, by_label: Mapping[str, str]) -> str:
    short = {member.name: by_label.get(member.runs[0], member.name) or member.name for member in one.members}
    if len(set(short.values())) < len(short):
        short = {name: name for name in short}
    names = [short[member.name] for member in one.members for _ in range(member.count)]
    sharing = "" if one.sharing == "naive" else f" by {one.sharing}"
    if len(names) == 2:
        act = f"pairing {' and '.join(names)}{sharing}"
    else:
        act = f"sharing a GPU among {listed(names, _MOST_NAMED)}{sharing}"
    act = f"on simulated GPUs, {act}" if any(member.simulated for member in one.members) else act
    act = act[0].upper() + act[1:]
    if one.verdict == "unsure":
        return f"{act}: the repetitions differ too much to show whether it saved time."
    if abs(ratio - 1) < _EVEN:
        outcome = "took as long as one after the other"
    elif ratio < 1:
        outcome = f"saved {1 - ratio:.0%} of the time"
    else:
        outcome = f"took {ratio - 1:.0%} longer than one after the other"
    slower = [
        f"{short[member.name]} {member.slowdown.ratio.value - 1:.0%}"
        for member in one.members
        if member.slowdown is not None and member.slowdown.ratio.value > 1 + _EVEN
    ]
    return f"{act} {outcome}" + (f" and cost {listed(slower, _MOST_NAMED)}." if slower else ".")
