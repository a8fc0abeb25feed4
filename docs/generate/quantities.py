"""Quantities and their metrics, from the catalog in the database."""

from __future__ import annotations

from itertools import groupby

from docs.generate.markdown import table
from hypergauge.sql.server.database import Connection

__all__ = ["sources", "tables"]

_QUANTITIES = """
    select quantity, min(unit), min(combine), (array_agg(help order by preference, metric_id))[1]
    from metrics group by quantity order by min(metric_id)
"""
_METRICS = """
    select quantity, metric, match from metrics m
    join (select quantity, min(metric_id) as first from metrics group by quantity) q using (quantity)
    order by first, preference, metric, match::text
"""
# Prefixes of the quantities of each topic; the first topic has the rest.
_TOPICS: dict[str, tuple[str, ...]] = {
    "Runs and hosts": (),
    "GPUs": ("gpu_",),
    "The collector and the exporters": ("collector_", "listener_"),
}


def tables(connection: Connection) -> str:
    """Return a table for each topic."""
    rows = connection.execute(_QUANTITIES).fetchall()
    parts = []
    for topic in _TOPICS:
        cells = ([f"`{name}`", unit, combine, text] for name, unit, combine, text in rows if _topic(name) == topic)
        parts += [f"### {topic}", table(["quantity", "unit", "over series", "meaning"], cells)]
    return "\n\n".join(parts)


def sources(connection: Connection) -> str:
    """Return the metrics of each quantity, the preferred first."""
    rows = connection.execute(_METRICS).fetchall()
    return "\n".join(
        f"- `{quantity}`: " + ", ".join(_selector(metric, match) for _, metric, match in metrics)
        for quantity, metrics in groupby(rows, key=lambda row: row[0])
    )


def _topic(quantity: str) -> str:
    found = (topic for topic, prefixes in _TOPICS.items() if quantity.startswith(prefixes))
    return next(found, next(iter(_TOPICS)))


def _selector(metric: str, match: dict[str, str]) -> str:
    labels = ", ".join(f'{name}="{value}"' for name, value in match.items())
    return f"`{metric}{{{labels}}}`" if labels else f"`{metric}`"
