"""Profiles of two runs: which entries account for the difference of their times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hypergauge.core.errors import BadRequest, NoData, did_you_mean
from hypergauge.sql.runs.profiles import Profile, ProfileEntry, profile_entries, profile_phases, profiles, steps_within
from hypergauge.sql.runs.selection import RunInfo
from hypergauge.sql.server.database import Connection

__all__ = ["Change", "Compared", "Content", "Kind", "chosen", "compare", "compare_all", "content"]

# A cause has at least this share of a difference, and a difference is at least that share of the longer time.
_CAUSE, _DIFFERENT = 0.75, 0.05
# Share of a name's time in the other run below which it hardly enters it; and the outermost of Python's functions.
_ABSENT, _MODULE = 0.01, "<module>"


@dataclass(frozen=True, slots=True)
class Content:
    """Profile with its entries by kind, those with the most time of their own first."""

    run: RunInfo
    profile: Profile
    kinds: dict[str, list[ProfileEntry]]


@dataclass(frozen=True, slots=True)
class Change:
    """Entry of two profiles.

    Attributes
    ----------
    seconds, before
        Time of its own, here and in the other profile.
    share
        Share of the change in the difference of all entries of the kind; ``None`` where these take the same time.
    """

    name: str
    seconds: float
    before: float
    share: float | None

    @property
    def difference(self) -> float:
        """Return how much longer it takes here."""
        return self.seconds - self.before


@dataclass(frozen=True, slots=True)
class Kind:
    """Comparison of all entries of one kind.

    Attributes
    ----------
    cause
        Name that accounts for most of the difference with what it calls, and its share of it; ``None`` without a difference,
        or if no name does.
    """

    kind: str
    seconds: float
    before: float
    cause: tuple[str, float] | None
    changes: list[Change]


@dataclass(frozen=True, slots=True)
class Compared:
    """Comparison of two profiles by the same profiler.

    Attributes
    ----------
    per
        ``step``, where both runs track them; ``second``, if one was taken of a live run; else ``run``.
    """

    profile: Content
    against: Content
    per: str
    kinds: list[Kind]


def chosen(connection: Connection, run: RunInfo, profiler: str | None = None) -> list[Profile]:
    """Return the newest profile of a run by each profiler, or by one.

    Raises
    ------
    NoData
        The run has none.
    BadRequest
        The run has none by this profiler.
    """
    newest = {one.profiler: one for one in profiles(connection, [run.run_id])}
    if not newest:
        raise NoData(
            f"{run.label} has no profile: name a profiler among its Listeners, as in `bench run --listeners py-spy`, "
            "or use --seconds while it runs"
        )
    if profiler is None:
        return list(newest.values())
    if profiler not in newest:
        raise BadRequest(f"{run.label} has no profile by {profiler!r}{did_you_mean(profiler, newest)}")
    return [newest[profiler]]


def content(
    connection: Connection, run: RunInfo, found: Sequence[Profile], kind: str | None = None, phase: str | None = None
) -> list[Content]:
    """Return the entries of profiles of a run.

    Raises
    ------
    BadRequest
        No profile has entries of the kind or in the phase.
    """
    if phase is not None and phase not in (phases := profile_phases(connection, found)):
        raise BadRequest(f"no entry of {run.label} is in the phase {phase!r}{did_you_mean(phase, phases)}")
    contents = []
    for one in found:
        kinds: dict[str, list[ProfileEntry]] = {}
        for entry in profile_entries(connection, one, phase):
            kinds.setdefault(entry.kind, []).append(entry)
        contents.append(Content(run, one, kinds))
    every = list(dict.fromkeys(name for one in contents for name in one.kinds))
    if kind is None or not every:
        return contents
    if kind not in every:
        raise BadRequest(f"{run.label} has no entries of the kind {kind!r}{did_you_mean(kind, every)}")
    return [Content(run, one.profile, {kind: one.kinds[kind]}) for one in contents if kind in one.kinds]


def compare_all(connection: Connection, mine: Sequence[Content], theirs: Sequence[Content]) -> list[Compared]:
    """Compare the profiles of two runs by each profiler that both have.

    Raises
    ------
    NoData
        They have no profiler in common.
    """
    others = {one.profile.profiler: one for one in theirs}
    found = [compare(connection, one, others[one.profile.profiler]) for one in mine if one.profile.profiler in others]
    if not found:
        here, there = (", ".join(one.profile.profiler for one in side) for side in (mine, theirs))
        raise NoData(f"the runs have profiles by other profilers: {here}; {there}")
    return found


def compare(connection: Connection, mine: Content, theirs: Content) -> Compared:
    """Compare two profiles by the same profiler."""
    steps = steps_within(connection, mine.profile), steps_within(connection, theirs.profile)
    both = mine.profile, theirs.profile
    if all(steps):
        per, divisors = "step", (float(steps[0]), float(steps[1]))
    elif any(one.number > 1 for one in both):
        per, divisors = "second", (both[0].seconds, both[1].seconds)
    else:
        per, divisors = "run", (1.0, 1.0)
    kinds = [
        _kind(kind, entries, theirs.kinds[kind], divisors)
        for kind, entries in mine.kinds.items()
        if kind in theirs.kinds
    ]
    return Compared(mine, theirs, per, kinds)


def _kind(
    kind: str, mine: Iterable[ProfileEntry], theirs: Iterable[ProfileEntry], divisors: tuple[float, float]
) -> Kind:
    own, total = _times(mine, divisors[0])
    own_before, total_before = _times(theirs, divisors[1])
    seconds, before = sum(own.values()), sum(own_before.values())
    difference = seconds - before
    differs = abs(difference) > _DIFFERENT * max(seconds, before)
    changes = []
    for name in dict.fromkeys([*own, *own_before]):
        here, there = own.get(name, 0.0), own_before.get(name, 0.0)
        changes.append(Change(name, here, there, (here - there) / difference if differs else None))
    changes.sort(key=lambda one: -abs(one.difference))
    return Kind(kind, seconds, before, _cause(total, total_before, difference) if differs else None, changes)


def _times(entries: Iterable[ProfileEntry], divisor: float) -> tuple[dict[str, float], dict[str, float]]:
    listed = list(entries)
    return {one.name: one.self / divisor for one in listed}, {one.name: one.total / divisor for one in listed}


def _cause(total: dict[str, float], before: dict[str, float], difference: float) -> tuple[str, float] | None:
    """Return the name that has most of the difference in its total.

    Its callers and those that it calls have it too. It is the outermost that only one run enters, else the innermost.
    """
    times = {name: (total.get(name, 0.0), before.get(name, 0.0)) for name in dict.fromkeys([*total, *before])}
    found = {name: (here - there) / difference for name, (here, there) in times.items()}
    found = {name: share for name, share in found.items() if share >= _CAUSE and not name.startswith(_MODULE)}
    if not found:
        return None
    new = [name for name in found if min(times[name]) < _ABSENT * max(times[name])]
    name = max(new, key=lambda one: max(times[one])) if new else min(found, key=lambda one: max(times[one]))
    return name, found[name]
