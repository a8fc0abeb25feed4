"""Actions of fired rules, pending and done. Each action runs once per firing, also after a crash."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from psycopg.types.json import Jsonb

from hypergauge.sql.runs.firings import Firing
from hypergauge.sql.server.database import Connection
from hypergauge.sql.server.rows import column, records

__all__ = ["Outcome", "RequestedAction", "begin", "end", "request", "requested_actions", "running_in_workload"]

Outcome = Literal["done", "failed", "needless"]


@dataclass(frozen=True, slots=True)
class RequestedAction:
    """Pending action of a firing, with its run.

    Attributes
    ----------
    started_at
        Start of the firing.
    attempt, experiment_id, workload, position, name, host
        Fields of the run.
    """

    run_id: str
    rule: str
    started_at: datetime
    action: str
    severity: str
    evidence: Mapping[str, Any]
    experiment_id: int
    workload: int
    position: int
    attempt: int
    name: str
    host: str

    @property
    def label(self) -> str:
        """Selector of the run's attempt: ``20/1/3@1``."""
        return f"{self.experiment_id}/{self.workload}/{self.position}@{self.attempt}"


def request(connection: Connection, firing: Firing, actions: Iterable[str]) -> None:
    """Request actions for a firing. A repeated request has no effect."""
    with connection.cursor() as cursor:
        cursor.executemany(
            """
            insert into rule_actions (run_id, rule, started_at, action, severity, evidence)
            values (%s, %s, %s, %s, %s, %s) on conflict do nothing
            """,
            [
                (firing.run_id, firing.rule, firing.started_at, action, firing.severity, Jsonb(dict(firing.evidence)))
                for action in actions
            ],
        )


def requested_actions(connection: Connection, host: str) -> list[RequestedAction]:
    """Return the pending actions for runs of a host, in order of request."""
    return records(
        connection,
        RequestedAction,
        """
            select a.run_id, a.rule, a.started_at, a.action, a.severity, a.evidence, experiment_id, workload, position,
                   attempt, r.name, host
            from rule_actions a join runs r using (run_id) join workloads using (workload_id)
            where begun_at is null and host = %s
            order by asked_at, a.run_id, a.rule, a.action
            """,
        (host,),
    )


def begin(connection: Connection, request: RequestedAction) -> bool:
    """Mark an action as started. Return whether this process must perform it."""
    done = connection.execute(
        """
        update rule_actions set begun_at = now()
        where (run_id, rule, started_at, action) = (%s, %s, %s, %s) and begun_at is null
        """,
        (request.run_id, request.rule, request.started_at, request.action),
    )
    return done.rowcount == 1


def end(connection: Connection, request: RequestedAction, outcome: Outcome, detail: str) -> None:
    """Record the outcome of an action."""
    connection.execute(
        """
        update rule_actions set ended_at = now(), outcome = %s, detail = %s
        where (run_id, rule, started_at, action) = (%s, %s, %s, %s)
        """,
        (outcome, detail, request.run_id, request.rule, request.started_at, request.action),
    )


def running_in_workload(connection: Connection, run_id: str) -> list[str]:
    """Return the running runs in a run's workload, including the run itself."""
    return column(
        connection,
        """
        select run_id from runs
        where workload_id = (select workload_id from runs where run_id = %s) and status = 'running' order by position
        """,
        (run_id,),
    )
