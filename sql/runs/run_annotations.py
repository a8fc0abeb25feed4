"""Annotations of past runs: protection, notes, removal."""

from __future__ import annotations

from collections.abc import Sequence

from hypergauge.core.errors import BadRequest
from hypergauge.sql.runs.selection import RunInfo
from hypergauge.sql.server.database import Connection, StatementFailed
from hypergauge.sql.server.rows import value

__all__ = ["add_note", "check_may_remove", "check_removable", "keep", "note", "remove_runs"]


def keep(connection: Connection, run_ids: Sequence[str], kept: bool) -> None:
    """Protect runs from retention and removal, or remove the protection."""
    connection.execute("update runs set keep = %s where run_id = any(%s)", (kept, list(run_ids)))


def note(connection: Connection, run_id: str, text: str | None) -> None:
    """Replace the note of a run; ``None`` removes the note."""
    connection.execute("update runs set note = %s where run_id = %s", (text, run_id))


def add_note(connection: Connection, run: RunInfo, text: str, *, append: bool = False, replace: bool = False) -> str:
    """Add a note to a run, and return the run's note.

    Raises
    ------
    BadRequest
        The run has a note, and the text is neither to be appended to it nor to replace it.
    """
    if run.note and not (append or replace):
        raise BadRequest(f"{run.label} has a note: --append adds to it, --force replaces it")
    content = f"{run.note}\n\n{text}" if append and run.note else text
    if content != run.note:
        note(connection, run.run_id, content)
    return content


def check_may_remove(connection: Connection) -> None:
    """Check the user's right to remove runs, before any other step of a removal.

    Raises
    ------
    StatementFailed
        The user may not remove runs.
    """
    if not value(connection, bool, "select has_function_privilege('remove_runs(text[])', 'execute')"):
        raise StatementFailed(f"{connection.info.user} may not remove runs from this database")


def check_removable(runs: Sequence[RunInfo], user: str, *, others: bool = False) -> None:
    """Check that none of the runs must stay.

    Parameters
    ----------
    others
        Whether `user` may also remove runs of other users.

    Raises
    ------
    BadRequest
        A run belongs to another user, has not ended, or is protected.
    """
    refused = [
        ("of another user; --others removes them too", [run for run in runs if run.owner != user and not others]),
        ("not ended; `bench stop` ends them", [run for run in runs if run.status in ("pending", "running")]),
        ("protected; `bench keep --undo` removes the protection", [run for run in runs if run.keep]),
    ]
    for why, which in refused:
        if which:
            names = ", ".join(f"{run.full_label} ({run.owner})" for run in which[:6])
            raise BadRequest(f"{names}{' …' * (len(which) > 6)}: {why}; nothing was removed")


def remove_runs(connection: Connection, run_ids: Sequence[str]) -> int:
    """Remove ended runs with their own data, all or none. Return the number of removed samples.

    Samples shared with other runs stay, with the information that those runs shared the resource.
    """
    return value(connection, int, "select remove_runs(%s)", (list(run_ids),))
