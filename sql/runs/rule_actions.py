"""Actions of rules that fired: to do and done. Each action runs once per firing, also after a crash."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from hypergauge.sql.runs.firings import Firing
from hypergauge.sql.server.database import Connection

__all__ = ["AskedAction", "Outcome", "ask", "asked_actions", "begin", "end", "running_in_workload"]

Outcome = Literal["done", "failed", "needless"]


@dataclass(frozen=True, slots=True)
class AskedAction:
    """An action that is to be done, and what it is about.

    Attributes
    ----------
    started_at
        When the rule began to hold.
    attempt, experiment_id, workload, position, name, host
        Those of the run.
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
        """Selector of its run and no other attempt: ``20/1/3@1``."""
        return f"{self.experiment_id}/{self.workload}/{self.position}@{self.attempt}"


def ask(connection: Connection, firing: Firing, actions: Iterable[str]) -> None:
    """Record what is to be done about a firing; what was asked for already is not asked for again."""
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


def asked_actions(connection: Connection, host: str) -> list[AskedAction]:
    """Return what is to be done about runs of a host and was not begun, in the order in which it was asked for."""
    with connection.cursor(row_factory=class_row(AskedAction)) as cursor:
        return cursor.execute(
            """
            select a.run_id, a.rule, a.started_at, a.action, a.severity, a.evidence, experiment_id, workload, position,
                   attempt, r.name, host
            from rule_actions a join runs r using (run_id) join workloads using (workload_id)
            where begun_at is null and host = %s
            order by asked_at, a.run_id, a.rule, a.action
            """,
            (host,),
        ).fetchall()


def begin(connection: Connection, asked: AskedAction) -> bool:
    """Record that an action is about to be done; return whether it is this process that has to."""
    done = connection.execute(
        """
        update rule_actions set begun_at = now()
        where (run_id, rule, started_at, action) = (%s, %s, %s, %s) and begun_at is null
        """,
        (asked.run_id, asked.rule, asked.started_at, asked.action),
    )
    return done.rowcount == 1


def end(connection: Connection, asked: AskedAction, outcome: Outcome, detail: str) -> None:
    """Record how an action went."""
    connection.execute(
        """
        update rule_actions set ended_at = now(), outcome = %s, detail = %s
        where (run_id, rule, started_at, action) = (%s, %s, %s, %s)
        """,
        (outcome, detail, asked.run_id, asked.rule, asked.started_at, asked.action),
    )


def running_in_workload(connection: Connection, run_id: str) -> list[str]:
    """Return the runs that go on in the workload of a run, itself among them."""
    rows = connection.execute(
        """
        select run_id from runs
        where workload_id = (select workload_id from runs where run_id = %s) and status = 'running' order by position
        """,
        (run_id,),
    ).fetchall()
    return [one for (one,) in rows]
