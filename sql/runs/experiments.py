"""Experiments and workloads: ownership of ids, and the workload of each row."""

from __future__ import annotations

from hypergauge.core.errors import BadRequest
from hypergauge.sql.server.database import Connection
from hypergauge.sql.server.rows import first_value, value

# Experiment of commands without a file: far above the ids that users choose.
COMMAND_EXPERIMENT = 1_000_000

__all__ = [
    "COMMAND_EXPERIMENT",
    "ask_to_end",
    "asked_to_end",
    "being_scheduled",
    "choose_id",
    "claim_experiment",
    "lock_command",
    "lock_experiment",
    "next_command_workload",
    "next_free_id",
    "open_workload",
    "owner_problem",
    "require_unscheduled",
    "take_up",
]


def claim_experiment(connection: Connection, experiment: int, *, name: str, source: str, into: bool) -> None:
    """Assign `experiment` to the file `source`, or check that it belongs to `source` already.

    Raises
    ------
    BadRequest
        The experiment belongs to another file, and `into` is false. The message names the owner and the next free id.
    """
    connection.execute(
        "insert into experiments (experiment_id, name, source) values (%s, %s, %s) on conflict do nothing",
        (experiment, name, source),
    )
    if not into and (problem := owner_problem(connection, experiment, source)):
        raise BadRequest(problem, file=source)


def lock_experiment(connection: Connection, experiment: int) -> None:
    """Keep other commands from scheduling `experiment` for the life of this connection.

    Raises
    ------
    BadRequest
        Another command already schedules the experiment.
    """
    if not value(connection, bool, "select pg_try_advisory_lock(hashtext('bench.schedule'), %s)", (experiment,)):
        raise _scheduled_already(experiment)


def require_unscheduled(connection: Connection, experiment: int) -> None:
    """Check that no command schedules `experiment`, as `lock_experiment` does.

    Raises
    ------
    BadRequest
        Another command schedules the experiment.
    """
    if being_scheduled(connection, experiment):
        raise _scheduled_already(experiment)


def _scheduled_already(experiment: int) -> BadRequest:
    return BadRequest(
        f"experiment {experiment} is being scheduled by another command; `bench status` shows its progress, "
        f"`bench stop {experiment}` ends it"
    )


def being_scheduled(connection: Connection, experiment: int) -> bool:
    """Return whether a command schedules `experiment`. A replica has no locks, so it always returns false."""
    return value(
        connection,
        bool,
        """
        select exists (select from pg_locks where locktype = 'advisory' and granted
                       and database = (select oid from pg_database where datname = current_database())
                       and classid = hashtext('bench.schedule')::oid and objid = %s::oid)
        """,
        (experiment,),
    )


def take_up(connection: Connection, experiment: int) -> None:
    """Clear the stop request of an experiment: a request to an earlier schedule does not stop a new one."""
    connection.execute("update experiments set stop_reason = null where experiment_id = %s", (experiment,))


def ask_to_end(connection: Connection, experiment: int, reason: str) -> None:
    """Ask an experiment's scheduler to start no more runs. The first reason stays."""
    connection.execute(
        "update experiments set stop_reason = coalesce(stop_reason, %s) where experiment_id = %s", (reason, experiment)
    )


def asked_to_end(connection: Connection, experiment: int) -> str | None:
    """Return the reason of an experiment's stop request, ``None`` without a request."""
    return first_value(connection, str, "select stop_reason from experiments where experiment_id = %s", (experiment,))


def lock_command(connection: Connection, workload: int) -> None:
    """Keep other commands from repeating a command, that is a workload of `COMMAND_EXPERIMENT`; see `lock_experiment`.

    Raises
    ------
    BadRequest
        Another command already reruns the workload.
    """
    if not value(connection, bool, "select pg_try_advisory_lock(hashtext('bench.command'), %s)", (workload,)):
        raise BadRequest(
            f"{COMMAND_EXPERIMENT}/{workload} is being repeated by another command; "
            f"`bench stop {COMMAND_EXPERIMENT}/{workload}` ends it"
        )


def owner_problem(connection: Connection, experiment: int, source: str) -> str | None:
    """Return why `experiment` cannot belong to the file `source`, with the owner and the next free id."""
    owner = first_value(connection, str, "select source from experiments where experiment_id = %s", (experiment,))
    if owner in (None, source):
        return None
    return (
        f"experiment {experiment} belongs to {owner}; the next free id is {next_free_id(connection)}, "
        "or give --into to add these runs to it"
    )


def next_free_id(connection: Connection) -> int:
    """Return the id after the highest that a user has chosen."""
    return value(
        connection,
        int,
        "select coalesce(max(experiment_id), 0) + 1 from experiments where experiment_id < %s",
        (COMMAND_EXPERIMENT,),
    )


def choose_id(connection: Connection, source: str, preferred: int) -> int:
    """Return the experiment of the file `source`: its existing one, else `preferred` if free, else the next free id."""
    owner = first_value(
        connection, int, "select experiment_id from experiments where source = %s order by 1 limit 1", (source,)
    )
    if owner is not None:
        return owner
    return next_free_id(connection) if owner_problem(connection, preferred, source) else preferred


def open_workload(connection: Connection, experiment: int, workload: int) -> int:
    """Return the database's id of a workload, created if new."""
    return value(
        connection,
        int,
        """
        insert into workloads (experiment_id, workload) values (%s, %s)
        on conflict (experiment_id, workload) do update set workload = excluded.workload
        returning workload_id
        """,
        (experiment, workload),
    )


def next_command_workload(connection: Connection) -> tuple[int, int]:
    """Create a workload for a command without a file, and return its experiment and number."""
    source = "bench run"
    with connection.transaction():
        connection.execute("lock table workloads in share row exclusive mode")
        claim_experiment(connection, COMMAND_EXPERIMENT, name=source, source=source, into=True)
        number = value(
            connection,
            int,
            "select coalesce(max(workload), 0) + 1 from workloads where experiment_id = %s",
            (COMMAND_EXPERIMENT,),
        )
        open_workload(connection, COMMAND_EXPERIMENT, number)
    return COMMAND_EXPERIMENT, number
