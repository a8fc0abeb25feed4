"""Counterparts: the earlier rows that each row of a comparison is tested against."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hypergauge.sql.runs.selection import RunInfo

__all__ = ["Pair", "pairs"]

Rows = Mapping[str, Sequence[RunInfo]]


@dataclass(frozen=True, slots=True)
class Pair:
    """A row and its counterpart, or ``None``.

    Attributes
    ----------
    by
        Reason: the same ``configuration``, the same ``position`` in the file, or the ``only`` row.
    """

    new: str
    old: str | None
    by: str = ""


def pairs(new: Rows, old: Rows) -> Iterator[Pair]:
    """Yield each row with its counterpart; rows are attempts by label.

    A single old row is the counterpart of all. Otherwise it is the row with the same configuration (command, environment,
    devices, collocation), of several the one with the same workload and position, and without any the one with that
    position.
    """
    for label, attempts in new.items():
        if len(old) == 1:
            yield Pair(label, next(iter(old)), "only")
            continue
        alike = [one for one, theirs in old.items() if _configuration(theirs) == _configuration(attempts)]
        there = [one for one in alike or old if _position(old[one]) == _position(attempts)]
        found, by = (alike, "configuration") if len(alike) == 1 else (there, "configuration" if alike else "position")
        yield Pair(label, found[0], by) if len(found) == 1 else Pair(label, None)


def _configuration(attempts: Sequence[RunInfo]) -> tuple[str, ...]:
    run = attempts[-1]
    return run.command, run.environment, run.devices, run.collocation


def _position(attempts: Sequence[RunInfo]) -> tuple[int, int]:
    run = attempts[-1]
    return run.workload, run.position
