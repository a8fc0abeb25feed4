"""Announcements: the exporters that run on each host, with their addresses."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg

from hypergauge.sql.server.database import Connection, Database, StatementFailed
from hypergauge.sql.server.rows import records

__all__ = ["SILENT_SECONDS", "Announcement", "announce", "announcements", "withdraw", "withdraw_silent"]

# A killed exporter is withdrawn after a collector has failed to scrape it for this long. The limit exceeds the restart
# time of a service, so a restarted exporter keeps its target.
SILENT_SECONDS = 60.0
# Longest delay of an exporter's shutdown by a database that does not answer.
_TIMEOUT_SECONDS = 3


@dataclass(frozen=True, slots=True)
class Announcement:
    """Exporter of a host; `url` is on 127.0.0.1 where no other host reaches the exporter."""

    host: str
    listener: str
    url: str


def announce(database: Database, one: Announcement) -> None:
    """Announce an exporter, or renew its announcement.

    Raises
    ------
    DatabaseUnavailable
        The database does not answer within `_TIMEOUT_SECONDS`.
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
    """Withdraw an announcement; safe to repeat.

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
    """Connect for one statement: with thousands of exporters, open connections would exhaust the server."""
    with database.connect(timeout=_TIMEOUT_SECONDS) as connection:
        try:
            connection.execute(f"set statement_timeout = '{_TIMEOUT_SECONDS}s'")
            yield connection
        except psycopg.Error as error:
            raise StatementFailed(str(error).strip()) from error


def announcements(connection: Connection) -> list[Announcement]:
    """Return all announcements, oldest first."""
    return records(
        connection,
        Announcement,
        "select host, listener, url from announcements order by announced_at, host, listener, url",
    )


def withdraw_silent(connection: Connection) -> None:
    """Withdraw exporters whose scrapes have failed for `SILENT_SECONDS` without a renewed announcement."""
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
