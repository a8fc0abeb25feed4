"""Announcements: the exporters that run on each host, with their addresses."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
from psycopg.rows import class_row

from hypergauge.sql.server.database import Connection, Database, StatementFailed

__all__ = ["SILENT_SECONDS", "Announcement", "announce", "announcements", "withdraw", "withdraw_silent"]

# A listener that was killed is withdrawn when a collector has tried it for so long in vain. Longer than a service takes
# to be started again, so that its target stays the same.
SILENT_SECONDS = 60.0
# How long a database that does not answer may hold up a listener's end.
_PATIENCE_SECONDS = 3


@dataclass(frozen=True, slots=True)
class Announcement:
    """A listener of a host; its `url` is on 127.0.0.1 where nobody else reaches it."""

    host: str
    listener: str
    url: str


def announce(database: Database, one: Announcement) -> None:
    """Say that a listener is there, for the first time or again.

    Raises
    ------
    DatabaseUnavailable
        It cannot be said within `_PATIENCE_SECONDS`.
    """
    with _briefly(database) as connection:
        connection.execute(
            """
            insert into announcements (host, listener, url) values (%s, %s, %s)
            on conflict (host, listener, url) do update set renewed_at = now()
            """,
            (one.host, one.listener, one.url),
        )


def withdraw(database: Database, one: Announcement) -> None:
    """Say that a listener is gone; nothing where that is known.

    Raises
    ------
    DatabaseUnavailable
        As `announce`.
    """
    with _briefly(database) as connection:
        connection.execute(
            "delete from announcements where (host, listener, url) = (%s, %s, %s)", (one.host, one.listener, one.url)
        )


@contextlib.contextmanager
def _briefly(database: Database) -> Iterator[Connection]:
    """Connect for one statement: thousands of listeners would be thousands of connections."""
    with database.connect(timeout=_PATIENCE_SECONDS) as connection:
        try:
            connection.execute(f"set statement_timeout = '{_PATIENCE_SECONDS}s'")
            yield connection
        except psycopg.Error as error:
            raise StatementFailed(str(error).strip()) from error


def announcements(connection: Connection) -> list[Announcement]:
    """Return all that is announced, the oldest first."""
    with connection.cursor(row_factory=class_row(Announcement)) as cursor:
        return cursor.execute(
            "select host, listener, url from announcements order by announced_at, host, listener, url"
        ).fetchall()


def withdraw_silent(connection: Connection) -> None:
    """Withdraw listeners that have been tried for `SILENT_SECONDS` in vain, and have not spoken up since."""
    connection.execute(
        """
        with tried as (
            select host, listener, url, bool_and(coalesce(down_since < now() - make_interval(secs => %(silent)s), false)) as silent
            from targets where lease_until > now() group by host, listener, url
        )
        delete from announcements a using tried t
        where (t.host, t.listener, t.url) = (a.host, a.listener, a.url) and t.silent
            and a.renewed_at < now() - make_interval(secs => %(silent)s)
        """,
        {"silent": SILENT_SECONDS},
    )
