"""Data source, and macros that insert a selection into a query."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hypergauge.core.errors import BadRequest

__all__ = ["DATASOURCE", "Json", "literal", "literals", "query", "texts"]

Json = dict[str, Any]

DATASOURCE: Json = {"type": "grafana-postgresql-datasource", "uid": "bench"}


def texts(variable: str) -> str:
    """Return the values of a variable as an SQL array; ``{''}`` for none."""
    return f"ARRAY[${{{variable}:sqlstring}}]::text[]"


def literals(values: Iterable[str]) -> str:
    """Return texts as an SQL array."""
    return "ARRAY[" + ", ".join(literal(value) for value in values) + "]::text[]"


def literal(value: str) -> str:
    """Return a text as an SQL literal."""
    if "$" in value:
        raise BadRequest(f"{value!r} holds a $, which Grafana reads as a variable")
    return "'" + value.replace("'", "''") + "'"


def query(statement: str, *, series: bool = False, ref: str = "A", hide: bool = False) -> Json:
    """Return a query of a panel.

    Parameters
    ----------
    statement
        One statement. Variables appear as `texts` writes them, never raw.
    series
        Whether the rows are points of curves in order of time: ``time``, a value, and the curve's name in ``metric``.
        Otherwise they are a table.
    ref
        Letter of the query, for overrides and transformations.
    hide
        Whether Grafana skips it.
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
