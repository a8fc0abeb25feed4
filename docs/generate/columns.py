"""Columns of experiment files, from their model."""

from __future__ import annotations

from docs.generate.markdown import table as table_of
from hypergauge.scheduler.experiment.columns import COLUMNS

__all__ = ["table"]


def table() -> str:
    """Return a row for each column."""
    rows = ([f"`{name}`", column.meaning, column.empty] for name, column in COLUMNS.items())
    return table_of(["column", "meaning", "when empty or missing"], rows)
