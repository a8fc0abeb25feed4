"""Experiments and workloads: who owns an id, and which workload is which row."""

from __future__ import annotations

from bench.errors import BadRequest
from sql.database import Connection

__all__ = ["claim_experiment", "open_workload", "start_workload"]


def claim_experiment(connection: Connection, experiment: int, *, name: str, source: str, into: bool) -> None:
    """Make `experiment` that of the file `source`, or see that it is.

    Raises
    ------
    BadRequest
        It belongs to another file, and `into` is not given. Names the owner and the next free id.
    """
    connection.execute(
        "insert into experiments (experiment_id, name, source) values (%s, %s, %s) on conflict do nothing",
        (experiment, name, source),
    )
    row = connection.execute("select source from experiments where experiment_id = %s", (experiment,)).fetchone()
    assert row is not None
    owner = row[0]
    if owner != source and not into:
        free = connection.execute("select max(experiment_id) + 1 from experiments").fetchone()
        assert free is not None
        raise BadRequest(
            f"experiment {experiment} belongs to {owner}; the next free id is {free[0]}, "
            f"or add these runs to it with --into {experiment}",
            file=source,
        )


def open_workload(connection: Connection, experiment: int, workload: int) -> int:
    """Return the database's id of a workload, made where it is new."""
    row = connection.execute(
        """
        insert into workloads (experiment_id, workload) values (%s, %s)
        on conflict (experiment_id, workload) do update set workload = excluded.workload
        returning workload_id
        """,
        (experiment, workload),
    ).fetchone()
    assert row is not None
    return int(row[0])


def start_workload(connection: Connection, workload_id: int, started_at: float) -> None:
    """Record that runs of a workload begin; its start is that of its first run."""
    connection.execute(
        """
        update workloads set status = 'running', ended_at = null,
                             started_at = least(started_at, to_timestamp(%s))
        where workload_id = %s
        """,
        (started_at, workload_id),
    )
