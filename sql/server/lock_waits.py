"""Waits of sessions for a lock, with who holds it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from hypergauge.sql.server.database import Connection
from hypergauge.sql.server.rows import records

__all__ = ["LONGEST_WAIT_SECONDS", "LockWait", "lock_waits"]

# A write takes less than a second, and waits for others of its kind.
LONGEST_WAIT_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class LockWait:
    """Session that waits for a lock, and one that holds it. A parallel or prepared holder has no name.

    Attributes
    ----------
    pid, holder_pid
        Process ids of both on the server.
    program, holder_program
        Their `application_name`.
    since
        Start of the wait.
    """

    pid: int
    user: str
    program: str
    since: datetime
    holder_pid: int | None
    holder: str | None
    holder_program: str | None

    def describe(self) -> str:
        """Return one line, with the statement that ends the wait."""
        waiting = f"{self.program or 'a session'} of {self.user} has waited for a lock since {self.since.astimezone():%H:%M:%S}"
        if self.holder is None:
            return waiting
        return (
            f"{waiting}; {self.holder_program or 'a session'} of {self.holder} holds it: "
            f"`select pg_terminate_backend({self.holder_pid})` ends that session"
        )


def lock_waits(connection: Connection, seconds: float = LONGEST_WAIT_SECONDS) -> list[LockWait]:
    """Return the waits of this database's sessions that last longer than `seconds`, oldest first."""
    return records(
        connection, LockWait, "select * from bench_internal.lock_waits(make_interval(secs => %s))", (seconds,)
    )
