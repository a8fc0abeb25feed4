"""Columns of a comparison that a user chooses: means of any quantities."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from hypergauge.insight.comparison.columns import COLUMNS
from hypergauge.insight.comparison.entry import Entry
from hypergauge.sql.server.database import Connection

__all__ = ["ChosenQuantities"]

_COLUMNS = frozenset(name for column in COLUMNS for name in (column.key, column.quantity))


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
