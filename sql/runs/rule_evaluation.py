"""Runs of a host that are due for rule evaluation: running runs, and recently ended runs a last time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from hypergauge.sql.server.database import Connection
from hypergauge.sql.server.rows import records

__all__ = ["RunToEvaluate", "mark_evaluated", "runs_to_evaluate"]

# Longest wait for a run's last samples and its delivery; the collector or MLflow may be away.
_SETTLE_SECONDS = 60
# Runs that ended earlier without an evaluation are left to a replay: actions would come too late.
_LATE_SECONDS = 24 * 3600


@dataclass(frozen=True, slots=True)
class RunToEvaluate:
    """Run that is running, or has ended without a final evaluation.

    Attributes
    ----------
    settled
        Whether all samples of the run have arrived.
    overdue
        Whether the wait for them, and for what the script wrote, is over.
    actions
        Actions that the run's row requests: names by rule.
    """

    run_id: str
    started_at: datetime
    ended_at: datetime | None
    settled: bool
    overdue: bool
    actions: Mapping[str, Sequence[str]]


def runs_to_evaluate(connection: Connection, host: str) -> list[RunToEvaluate]:
    """Return the runs of a host that are due for evaluation, by start time."""
    return records(
        connection,
        RunToEvaluate,
        """
            select run_id, started_at, ended_at, actions,
                   ended_at is not null and summarised as settled,
                   coalesce(ended_at < now() - make_interval(secs => %(settle)s), false) as overdue
            from runs
            where not evaluated and host = %(host)s and started_at is not null
              and (status = 'running' or ended_at > now() - make_interval(secs => %(late)s))
            order by started_at, run_id
            """,
        {"host": host, "settle": _SETTLE_SECONDS, "late": _LATE_SECONDS},
    )


def mark_evaluated(connection: Connection, run_id: str) -> None:
    """Record the final evaluation of a run."""
    connection.execute("update runs set evaluated = true where run_id = %s", (run_id,))
