"""Mixes of MIG instances that fit on a GPU, next to existing ones."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from hypergauge.gpu.models import Profile
from hypergauge.gpu.placement import place

__all__ = ["alternatives", "mix"]

# Most alternatives named in the message about a mix that does not fit.
_ALTERNATIVES = 3


def alternatives(
    profiles: Sequence[Profile], wanted: Sequence[str], there: Sequence[tuple[Profile, int]] = ()
) -> list[str]:
    """Return the mixes that fit and are nearest to `wanted`: as many instances, some of them smaller.

    If there are none, return the largest part of `wanted` that fits; the list is empty if nothing fits.
    """
    known = {profile.name: profile for profile in profiles}
    if any(name not in known for name in wanted):
        return []
    fitting = list(itertools.islice(_smaller(profiles, [known[name] for name in wanted], there), _ALTERNATIVES))
    return fitting or list(itertools.islice(_parts(profiles, wanted, there), 1))


def _smaller(
    profiles: Sequence[Profile], wanted: Sequence[Profile], there: Sequence[tuple[Profile, int]]
) -> Iterator[str]:
    """Yield mixes of as many instances, none larger than the one it replaces, the nearest first."""
    if len(wanted) > max(one.compute for one in profiles):
        return
    ordered = sorted(wanted, key=_size, reverse=True)
    choices = itertools.combinations_with_replacement(sorted(profiles, key=_size, reverse=True), len(ordered))
    mixes = [
        chosen
        for chosen in choices
        if all(a.compute <= b.compute and a.memory <= b.memory for a, b in zip(chosen, ordered, strict=True))
    ]
    for chosen in sorted(mixes, key=lambda one: (-sum(p.compute for p in one), -sum(p.memory for p in one))):
        names = [profile.name for profile in chosen]
        if place(profiles, names, there) is not None:
            yield mix(names)


def _parts(profiles: Sequence[Profile], wanted: Sequence[str], there: Sequence[tuple[Profile, int]]) -> Iterator[str]:
    """Yield the parts of `wanted` that fit, those with the most instances first."""
    counts = Counter(sorted(wanted))
    most = max(one.compute for one in profiles)  # each instance takes at least one slice
    chosen = itertools.product(*(range(min(count, most), -1, -1) for count in counts.values()))
    for numbers in sorted(chosen, key=sum, reverse=True):
        names = [name for name, number in zip(counts, numbers, strict=True) for _ in range(number)]
        if names and place(profiles, names, there) is not None:
            yield mix(names)


def _size(profile: Profile) -> tuple[int, int, str]:
    return profile.compute, profile.memory, profile.name


def mix(names: Iterable[str]) -> str:
    """Return a mix in readable form: ``2 x 3g.20gb + 1g.5gb``."""
    return " + ".join(name if count == 1 else f"{count} x {name}" for name, count in Counter(names).items())
