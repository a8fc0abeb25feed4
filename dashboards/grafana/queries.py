"""Data source, and macros that bring a selection into a query."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hypergauge.core.errors import BadRequest

__all__ = ["DATASOURCE", "Json", "literal", "literals", "query", "texts"]

Json = dict[str, Any]

DATASOURCE: Json = {"type": "grafana-postgresql-datasource", "uid": "bench"}


def texts(variable: str) -> str:
    """Return what is chosen in a variable as an array in SQL: one value, several or all; ``{''}`` where there is none."""
    return f"ARRAY[${{{variable}:sqlstring}}]::text[]"


def literals(values: Iterable[str]) -> str:
    """Return words as an array in SQL."""
    return "ARRAY[" + ", ".join(literal(value) for value in values) + "]::text[]"


def literal(value: str) -> str:
    """Return a word as it stands in SQL."""
    if "$" in value:
        raise BadRequest(f"{value!r}: Grafana would take what begins with $ for a variable")
    return "'" + value.replace("'", "''") + "'"


def query(statement: str, *, series: bool = False, ref: str = "A", hide: bool = False) -> Json:
    """Return a query of a panel.

    Parameters
    ----------
    statement
        One statement. Variables stand in it as `texts` writes them, never as they are.
    series
        Whether the rows are points of curves, in the order of their times. A column ``time`` says when, a number is the
        value, and a text column ``metric`` is the curve's name. Otherwise they are a table.
    ref
        Its letter: what overrides and transformations of the panel call it.
    hide
        Whether it is not asked.
    """
    made: Json = {
        "refId": ref,
        "datasource": DATASOURCE,
        "editorMode": "code",
        "format": "time_series" if series else "table",
        "rawQuery": True,
        "rawSql": " ".join(statement.split()),
    }
    return {**made, "hide": True} if hide else made
