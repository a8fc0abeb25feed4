"""Scrape errors of targets, reported by collectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hypergauge.sql.server.database import Connection
from hypergauge.sql.server.rows import records

__all__ = ["FailingTarget", "failing_targets", "report_errors"]


@dataclass(frozen=True, slots=True)
class FailingTarget:
    """Target whose last scrape failed, with the error."""

    host: str
    listener: str
    url: str
    error: str


def report_errors(connection: Connection, errors: Mapping[int, str], source: str) -> None:
    """Store the error of each target's last scrape, empty for success. Targets of other collectors than `source` are skipped."""
    connection.execute(
        """
        update targets t set last_error = nullif(r.error, '')
        from unnest(%s::int[], %s::text[]) as r(target_id, error)
        where t.target_id = r.target_id and t.collector = %s and t.last_error is distinct from nullif(r.error, '')
        """,
        (list(errors), list(errors.values()), source),
    )


def failing_targets(connection: Connection) -> list[FailingTarget]:
    """Return the targets that a live collector fails to scrape."""
    return records(
        connection,
        FailingTarget,
        """
            select host, listener, url, last_error as error from targets
            where last_error is not null and lease_until > now() order by host, listener, url
            """,
    )
