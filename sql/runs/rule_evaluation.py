"""Runs of a host that are due for rule evaluation: running ones, and just ended ones once more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row

from hypergauge.sql.server.database import Connection

__all__ = ["RunToEvaluate", "mark_evaluated", "runs_to_evaluate"]

# How long a run's last figures are waited for; the collector may be away.
_SETTLE_SECONDS = 60
# What ended longer ago, while nobody judged, is for a replay: its actions would come too late.
_LATE_SECONDS = 24 * 3600


@dataclass(frozen=True, slots=True)
class RunToEvaluate:
    """A run that goes on, or that has ended and was not judged since.

    Attributes
    ----------
    settled
        Whether all that was measured of it is there, or will not come any more.
    actions
        What its row wants to be done, names of actions by rule.
    """

    run_id: str
    started_at: datetime
    ended_at: datetime | None
    settled: bool
    actions: Mapping[str, Sequence[str]]


def runs_to_evaluate(connection: Connection, host: str) -> list[RunToEvaluate]:
    """Return the runs of a host that rules are to be asked about, those that began first in front."""
    with connection.cursor(row_factory=class_row(RunToEvaluate)) as cursor:
        return cursor.execute(
            """
            select run_id, started_at, ended_at, actions,
                   ended_at is not null and (summarised or ended_at < now() - make_interval(secs => %(settle)s)) as settled
            from runs
            where not judged and host = %(host)s and started_at is not null
              and (status = 'running' or ended_at > now() - make_interval(secs => %(late)s))
            order by started_at, run_id
            """,
            {"host": host, "settle": _SETTLE_SECONDS, "late": _LATE_SECONDS},
        ).fetchall()


def mark_evaluated(connection: Connection, run_id: str) -> None:
    """Record that rules have been asked about the whole of a run."""
    connection.execute("update runs set judged = true where run_id = %s", (run_id,))
