"""Counterparts: the earlier rows that each row of a comparison is tested against."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hypergauge.sql.runs.selection import RunInfo

__all__ = ["Pair", "pairs"]

Rows = Mapping[str, Sequence[RunInfo]]


@dataclass(frozen=True, slots=True)
class Pair:
    """A row, and what it is set against; ``None`` where there is nothing.

    Attributes
    ----------
    by
        What they have in common: their ``configuration``, their ``place`` in the file, or that there is the ``only`` one.
    """

    new: str
    old: str | None
    by: str = ""


def pairs(new: Rows, old: Rows) -> Iterator[Pair]:
    """Yield for each row, given by label with its attempts, the one that it is set against.

    All are set against a single row. Else it is the one of the same configuration (command with its parameters, environment, devices
    and collocation), of several the one in the same place (workload and position), and where none is of that configuration the one in
    that place.
    """
    for label, attempts in new.items():
        if len(old) == 1:
            yield Pair(label, next(iter(old)), "only")
            continue
        alike = [one for one, theirs in old.items() if _configuration(theirs) == _configuration(attempts)]
        there = [one for one in alike or old if _place(old[one]) == _place(attempts)]
        found, by = (alike, "configuration") if len(alike) == 1 else (there, "configuration" if alike else "place")
        yield Pair(label, found[0], by) if len(found) == 1 else Pair(label, None)


def _configuration(attempts: Sequence[RunInfo]) -> tuple[str, ...]:
    run = attempts[-1]
    return run.command, run.environment, run.devices, run.collocation


def _place(attempts: Sequence[RunInfo]) -> tuple[int, int]:
    run = attempts[-1]
    return run.workload, run.position
