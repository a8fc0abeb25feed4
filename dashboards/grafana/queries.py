"""The data source, and how what is chosen on a dashboard gets into a query."""

from __future__ import annotations

from typing import Any

__all__ = ["DATASOURCE", "Json", "numbers", "query", "texts"]

Json = dict[str, Any]

DATASOURCE: Json = {"type": "grafana-postgresql-datasource", "uid": "bench"}


def texts(variable: str) -> str:
    """Return what is chosen in a variable as an array in SQL: one value, several or all; ``{''}`` where there is none."""
    return f"ARRAY[${{{variable}:sqlstring}}]::text[]"


def numbers(variable: str) -> str:
    """Return what is chosen in a variable as an array of integers in SQL; an empty choice is an empty array."""
    return f"array_remove({texts(variable)}, '')::integer[]"


def query(statement: str, *, series: bool = False, ref: str = "A", hide: bool = False) -> Json:
    """Return a query of a panel.

    Parameters
    ----------
    statement
        One statement. Variables stand in it as `texts` and `numbers` write them, never as they are.
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
