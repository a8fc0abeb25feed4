"""Notices and their reasons, from the catalog in the database."""

from __future__ import annotations

from docs.generate.markdown import code, table
from hypergauge.sql.server.database import Connection

__all__ = ["codes", "reasons"]


def codes(connection: Connection) -> str:
    """Return the table of codes, in the order of display."""
    rows = connection.execute('select code, severity, "values", about from notice_catalog()').fetchall()
    return table(
        ["code", "severity", "values", "about"],
        ([f"`{name}`", severity, code(values), about] for name, severity, values, about in rows),
    )


def reasons(connection: Connection) -> str:
    """Return the table of reasons."""
    rows = connection.execute('select reason, "values", about from reason_catalog()').fetchall()
    return table(["reason", "values", "about"], ([f"`{name}`", code(values), about] for name, values, about in rows))
