"""Annotations of past runs: protection, notes, removal."""

from __future__ import annotations

from collections.abc import Sequence

from hypergauge.sql.server.database import Connection, StatementFailed

__all__ = ["check_may_remove", "keep", "note", "remove_runs"]


def keep(connection: Connection, run_ids: Sequence[str], kept: bool) -> None:
    """Protect runs from retention and removal, or no longer."""
    connection.execute("update runs set keep = %s where run_id = any(%s)", (kept, list(run_ids)))


def note(connection: Connection, run_id: str, text: str | None) -> None:
    """Put a note on a run in place of the one that it has; ``None`` takes it away."""
    connection.execute("update runs set note = %s where run_id = %s", (text, run_id))


def check_may_remove(connection: Connection) -> None:
    """Refuse who may not remove runs, before anything else is done about it.

    Raises
    ------
    StatementFailed
        This login may not.
    """
    row = connection.execute("select has_function_privilege('remove_runs(text[])', 'execute')").fetchone()
    if row != (True,):
        raise StatementFailed(f"{connection.info.user} may not remove runs from this database")


def remove_runs(connection: Connection, run_ids: Sequence[str]) -> int:
    """Remove runs that have ended with all that is theirs alone, all or none; return how many samples that was.

    Samples that others were there for as well stay, and so does that these were not alone.
    """
    row = connection.execute("select remove_runs(%s)", (list(run_ids),)).fetchone()
    assert row is not None
    return int(row[0])
