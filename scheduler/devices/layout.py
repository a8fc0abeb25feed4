"""Layout of MIG instances on a GPU, beside those that exist."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from hypergauge.gpu.models import Profile

__all__ = ["alternatives", "mix", "place"]

# How many other mixes are named where one does not fit.
_ALTERNATIVES = 3


def place(
    profiles: Sequence[Profile], wanted: Sequence[str], there: Sequence[tuple[Profile, int]] = ()
) -> list[int] | None:
    """Return the memory slice on which each instance of `wanted` is to begin, ``None`` where they do not fit together.

    High slices go first, as with the driver: what needs the first ones, a larger profile, then still fits later.

    Parameters
    ----------
    profiles
        Those of the GPU.
    wanted
        Names of profiles.
    there
        Profile and first memory slice of each instance that stays where it is.
    """
    known = {profile.name: profile for profile in profiles}
    if any(name not in known for name in wanted):
        return None
    room = max((profile.compute for profile in profiles), default=0) - sum(one.compute for one, _ in there)
    if sum(known[name].compute for name in wanted) > room:
        return None
    taken = {number for one, start in there for number in range(start, start + one.memory)}
    # Those with the least choice first; equal ones are neighbours, and the second of them goes below the first.
    order = sorted(range(len(wanted)), key=lambda number: (len(known[wanted[number]].starts), wanted[number]))
    found = _place([known[wanted[number]] for number in order], frozenset(taken), None)
    return None if found is None else [start for _, start in sorted(zip(order, found, strict=True))]


def _place(wanted: Sequence[Profile], taken: frozenset[int], last: tuple[Profile, int] | None) -> list[int] | None:
    if not wanted:
        return []
    first, *others = wanted
    for start in sorted(first.starts, reverse=True):
        slices = range(start, start + first.memory)
        if not taken.isdisjoint(slices) or (last and last[0] == first and start > last[1]):
            continue
        found = _place(others, taken.union(slices), (first, start))
        if found is not None:
            return [start, *found]
    return None


def alternatives(
    profiles: Sequence[Profile], wanted: Sequence[str], there: Sequence[tuple[Profile, int]] = ()
) -> list[str]:
    """Return the mixes nearest to `wanted`, which does not fit, that do: as many instances, some of them smaller.

    Where there are none, the largest part of `wanted`; empty where nothing of it fits.
    """
    known = {profile.name: profile for profile in profiles}
    if any(name not in known for name in wanted):
        return []
    fitting = list(itertools.islice(_smaller(profiles, [known[name] for name in wanted], there), _ALTERNATIVES))
    return fitting or list(itertools.islice(_parts(profiles, wanted, there), 1))


def _smaller(
    profiles: Sequence[Profile], wanted: Sequence[Profile], there: Sequence[tuple[Profile, int]]
) -> Iterator[str]:
    """Yield mixes of as many instances in which none is larger than the one it stands for, the nearest first."""
    if len(wanted) > max(one.compute for one in profiles):
        return
    asked = sorted(wanted, key=_size, reverse=True)
    choices = itertools.combinations_with_replacement(sorted(profiles, key=_size, reverse=True), len(asked))
    mixes = [
        chosen
        for chosen in choices
        if all(a.compute <= b.compute and a.memory <= b.memory for a, b in zip(chosen, asked, strict=True))
    ]
    for chosen in sorted(mixes, key=lambda one: (-sum(p.compute for p in one), -sum(p.memory for p in one))):
        names = [profile.name for profile in chosen]
        if place(profiles, names, there) is not None:
            yield mix(names)


def _parts(profiles: Sequence[Profile], wanted: Sequence[str], there: Sequence[tuple[Profile, int]]) -> Iterator[str]:
    """Yield the parts of `wanted` that fit, those of most instances first."""
    counts = Counter(sorted(wanted))
    most = max(one.compute for one in profiles)  # each takes one slice at least
    chosen = itertools.product(*(range(min(count, most), -1, -1) for count in counts.values()))
    for numbers in sorted(chosen, key=sum, reverse=True):
        names = [name for name, number in zip(counts, numbers, strict=True) for _ in range(number)]
        if names and place(profiles, names, there) is not None:
            yield mix(names)


def _size(profile: Profile) -> tuple[int, int, str]:
    return profile.compute, profile.memory, profile.name


def mix(names: Iterable[str]) -> str:
    """Return what people would write: ``2 x 3g.20gb + 1g.5gb``."""
    return " + ".join(name if count == 1 else f"{count} x {name}" for name, count in Counter(names).items())
