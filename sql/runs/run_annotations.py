"""Annotations of past runs: protection, notes, removal."""

from __future__ import annotations

from collections.abc import Sequence

from hypergauge.sql.server.database import Connection, StatementFailed
from hypergauge.sql.server.rows import value

__all__ = ["check_may_remove", "keep", "note", "remove_runs"]


def keep(connection: Connection, run_ids: Sequence[str], kept: bool) -> None:
    """Protect runs from retention and removal, or remove the protection."""
    connection.execute("update runs set keep = %s where run_id = any(%s)", (kept, list(run_ids)))


def note(connection: Connection, run_id: str, text: str | None) -> None:
    """Replace the note of a run; ``None`` removes the note."""
    connection.execute("update runs set note = %s where run_id = %s", (text, run_id))


def check_may_remove(connection: Connection) -> None:
    """Check the user's right to remove runs, before any other step of a removal.

    Raises
    ------
    StatementFailed
        The user may not remove runs.
    """
    if not value(connection, bool, "select has_function_privilege('remove_runs(text[])', 'execute')"):
        raise StatementFailed(f"{connection.info.user} may not remove runs from this database")


def remove_runs(connection: Connection, run_ids: Sequence[str]) -> int:
    """Remove ended runs with their own data, all or none. Return the number of removed samples.

    Samples shared with other runs stay, with the information that those runs shared the resource.
    """
    return value(connection, int, "select remove_runs(%s)", (list(run_ids),))
