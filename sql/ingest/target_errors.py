"""Scrape errors of targets, as their collectors report them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from psycopg.rows import class_row

from hypergauge.sql.server.database import Connection

__all__ = ["FailingTarget", "failing_targets", "report_errors"]


@dataclass(frozen=True, slots=True)
class FailingTarget:
    """A target whose last scrape failed, and why."""

    host: str
    listener: str
    url: str
    error: str


def report_errors(connection: Connection, errors: Mapping[int, str], source: str) -> None:
    """Record why scrapes failed, by target; empty where they did not. Those of another collector than `source` are left."""
    connection.execute(
        """
        update targets t set last_error = nullif(r.error, '')
        from unnest(%s::int[], %s::text[]) as r(target_id, error)
        where t.target_id = r.target_id and t.collector = %s and t.last_error is distinct from nullif(r.error, '')
        """,
        (list(errors), list(errors.values()), source),
    )


def failing_targets(connection: Connection) -> list[FailingTarget]:
    """Return the targets that a collector tries by now, and cannot scrape."""
    with connection.cursor(row_factory=class_row(FailingTarget)) as cursor:
        return cursor.execute(
            """
            select host, listener, url, last_error as error from targets
            where last_error is not null and lease_until > now() order by host, listener, url
            """
        ).fetchall()
