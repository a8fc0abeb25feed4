"""Helpers of the tests of moves."""

from __future__ import annotations

from collections.abc import Callable

from hypergauge.sql.server.database import Database
from tests.support.data.backups import contents, sums
from tests.support.world import World

SUMMARY = "select * from run_summary order by run_id, quantity, scope, metric, device"


def content(database: Database) -> tuple[object, ...]:
    """Return all that readers see: each row of each table, aggregates, summaries."""
    with database.session() as connection:
        connection.execute("set timezone = 'UTC'")
        return contents(connection), sums(connection), connection.execute(SUMMARY).fetchall()


def left(full: World) -> tuple[object, ...]:
    """Return the content of the source, and close its connection."""
    found = content(full.database)
    full.connection.close()
    return found


class Stopped(Exception):
    """Interrupt of a move by its test."""


def at_line(beginning: str) -> Callable[[str], None]:
    """Return a callback that interrupts the move at a message."""

    def notify(line: str) -> None:
        if line.startswith(beginning):
            raise Stopped(line)

    return notify


def at_verification(change: Callable[[], None]) -> Callable[[str], None]:
    """Return a callback that changes something after the copy, and before the comparison."""

    def notify(line: str) -> None:
        if line.startswith("Verifying"):
            change()

    return notify
