"""Placement of new MIG instances on a GPU, next to existing ones."""

from __future__ import annotations

from collections.abc import Sequence

from hypergauge.gpu.models import Profile, compute_left, free_starts

__all__ = ["place"]


def place(
    profiles: Sequence[Profile],
    wanted: Sequence[str],
    there: Sequence[tuple[Profile, int]] = (),
    *,
    highest_first: bool = True,
) -> list[int] | None:
    """Return the first memory slice of each instance of `wanted`; ``None`` if they do not fit together.

    Like the driver, take high slices first, because larger profiles need the low ones.

    Parameters
    ----------
    profiles
        Profiles of the GPU.
    wanted
        Names of profiles.
    there
        Profile and first memory slice of each existing instance.
    highest_first
        Whether to prefer high slices. A simulated GPU begins with instances on low ones, in the order of their ids, and so
        has room where new instances go.
    """
    known = {profile.name: profile for profile in profiles}
    if any(name not in known for name in wanted):
        return None
    if sum(known[name].compute for name in wanted) > compute_left(profiles, there):
        return None
    # Profiles with the fewest possible slices first. Equal profiles are adjacent and placed in one direction, to skip
    # equivalent permutations.
    order = sorted(range(len(wanted)), key=lambda number: (len(known[wanted[number]].starts), wanted[number]))
    found = _place(profiles, [known[wanted[number]] for number in order], there, None, highest_first)
    return None if found is None else [start for _, start in sorted(zip(order, found, strict=True))]


def _place(
    profiles: Sequence[Profile],
    wanted: Sequence[Profile],
    there: Sequence[tuple[Profile, int]],
    last: tuple[Profile, int] | None,
    highest_first: bool,
) -> list[int] | None:
    if not wanted:
        return []
    first, *others = wanted
    for start in sorted(free_starts(profiles, first, there), reverse=highest_first):
        if last and last[0] == first and (start > last[1]) == highest_first:
            continue
        placed = (first, start)
        found = _place(profiles, others, [*there, placed], placed, highest_first)
        if found is not None:
            return [start, *found]
    return None
