"""Columns of a comparison that a user chooses: means of any quantities, and watched losses."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from hypergauge.insight.comparison.columns import COLUMNS
from hypergauge.insight.comparison.entry import Entry
from hypergauge.sql.queries.charts.tensors import losses
from hypergauge.sql.server.database import Connection

__all__ = ["ChosenLosses", "ChosenQuantities"]

_COLUMNS = frozenset(name for column in COLUMNS for name in (column.key, column.quantity))
_LOSSES = ("loss", "val_loss")
# Points of watched losses, seconds since the run's start and value, by run id and name.
Losses = Mapping[tuple[str, str], Sequence[tuple[float, float]]]


class ChosenQuantities:
    """Addition of a mean for each chosen quantity that has no column.

    Parameters
    ----------
    names
        Names that a user gave; those of no quantity of a run are left out.
    """

    def __init__(self, names: Collection[str]) -> None:
        self._names = [name for name in names if name not in _COLUMNS]

    def __call__(self, connection: Connection, entries: Sequence[Entry]) -> list[Entry]:
        """Return the entries with the means."""
        del connection  # the entries have them
        return [self._with_means(entry) for entry in entries]

    def _with_means(self, entry: Entry) -> Entry:
        found = {name: entry.quantities[name] for name in self._names if name in entry.quantities}
        values = {name: one["mean"] for name, one in found.items() if one["mean"] is not None}
        scopes = {name: found[name]["scope"] for name in values}
        return replace(entry, values={**entry.values, **values}, scopes={**entry.scopes, **scopes})


class ChosenLosses:
    """Addition of the last watched loss, as a software metric, to the runs that do not log one of that name.

    Parameters
    ----------
    names
        Names that a user gave; others than those of losses are left out.
    """

    def __init__(self, names: Collection[str]) -> None:
        self._names = [name for name in _LOSSES if name in names]

    def __call__(self, connection: Connection, entries: Sequence[Entry]) -> list[Entry]:
        """Return the entries with the losses: of a part of a run, the last one before its end."""
        if not self._names:
            return list(entries)
        watched = losses(connection, [run.run_id for entry in entries for run in entry.runs])
        measured = {name for entry in entries for name in entry.quantities}
        names = [name for name in self._names if name not in measured]
        return [_with_losses(entry, names, watched) for entry in entries]


def _with_losses(entry: Entry, names: Sequence[str], watched: Losses) -> Entry:
    [run] = entry.runs
    end = math.inf
    for part in entry.intervals:
        if part.followed_at is not None and run.started_at is not None:
            end = (part.followed_at - run.started_at).total_seconds()
    of_run = [name for name in names if name not in entry.software and name not in entry.diverged]
    diverged = {name for name, value in _last(run.run_id, of_run, watched, math.inf) if value is None}
    software = {**dict(_last(run.run_id, of_run, watched, end)), **entry.software}
    return replace(entry, software=software, diverged=entry.diverged | diverged)


def _last(run_id: str, names: Sequence[str], watched: Losses, end: float) -> Iterator[tuple[str, float | None]]:
    for name in names:
        if inside := [value for x, value in watched.get((run_id, name), ()) if x < end]:
            yield name, None if math.isnan(inside[-1]) else inside[-1]
