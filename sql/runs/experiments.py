"""Experiments and workloads: owners of ids, and the workload of each row."""

from __future__ import annotations

from hypergauge.core.errors import BadRequest
from hypergauge.sql.server.database import Connection

# That of commands run without a file: out of the way of the ids that people choose.
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
    "take_up",
]


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
    if not into and (problem := owner_problem(connection, experiment, source)):
        raise BadRequest(problem, file=source)


def lock_experiment(connection: Connection, experiment: int) -> None:
    """Keep other commands from scheduling `experiment` for as long as this connection lives.

    Raises
    ------
    BadRequest
        One does so already.
    """
    row = connection.execute("select pg_try_advisory_lock(hashtext('bench.schedule'), %s)", (experiment,)).fetchone()
    if row is None or not row[0]:
        raise BadRequest(
            f"experiment {experiment} is being scheduled by another command; `bench status` shows how it goes on, "
            f"`bench stop {experiment}` ends it"
        )


def being_scheduled(connection: Connection, experiment: int) -> bool:
    """Return whether a command schedules `experiment`; a replica does not know."""
    row = connection.execute(
        """
        select exists (select from pg_locks where locktype = 'advisory' and granted
                       and database = (select oid from pg_database where datname = current_database())
                       and classid = hashtext('bench.schedule')::oid and objid = %s::oid)
        """,
        (experiment,),
    ).fetchone()
    return row is not None and bool(row[0])


def take_up(connection: Connection, experiment: int) -> None:
    """Begin to schedule an experiment: who asked an earlier schedule to end has not asked this one."""
    connection.execute("update experiments set stop_reason = null where experiment_id = %s", (experiment,))


def ask_to_end(connection: Connection, experiment: int, reason: str) -> None:
    """Ask who schedules an experiment to begin nothing more of it; the first reason stays."""
    connection.execute(
        "update experiments set stop_reason = coalesce(stop_reason, %s) where experiment_id = %s", (reason, experiment)
    )


def asked_to_end(connection: Connection, experiment: int) -> str | None:
    """Return why nothing more of an experiment is to begin, ``None`` where nobody has asked for that."""
    row = connection.execute("select stop_reason from experiments where experiment_id = %s", (experiment,)).fetchone()
    return None if row is None else row[0]


def lock_command(connection: Connection, workload: int) -> None:
    """Keep other commands from repeating a command, a workload of the command line's experiment, as `lock_experiment`.

    Raises
    ------
    BadRequest
        One does so already.
    """
    row = connection.execute("select pg_try_advisory_lock(hashtext('bench.command'), %s)", (workload,)).fetchone()
    if row is None or not row[0]:
        raise BadRequest(
            f"{COMMAND_EXPERIMENT}/{workload} is being repeated by another command; "
            f"`bench stop {COMMAND_EXPERIMENT}/{workload}` ends it"
        )


def owner_problem(connection: Connection, experiment: int, source: str) -> str | None:
    """Return why `experiment` cannot be that of the file `source`, naming the owner and the next free id."""
    row = connection.execute("select source from experiments where experiment_id = %s", (experiment,)).fetchone()
    if row is None or row[0] == source:
        return None
    return (
        f"experiment {experiment} belongs to {row[0]}; the next free id is {next_free_id(connection)}, "
        "or give --into to add these runs to it"
    )


def next_free_id(connection: Connection) -> int:
    """Return the id after the highest that people have chosen."""
    free = connection.execute(
        "select coalesce(max(experiment_id), 0) + 1 from experiments where experiment_id < %s", (COMMAND_EXPERIMENT,)
    ).fetchone()
    assert free is not None
    return int(free[0])


def choose_id(connection: Connection, source: str, preferred: int) -> int:
    """Return the experiment of the file `source`: the one that it has, else `preferred` where that is free, else the next free."""
    row = connection.execute(
        "select experiment_id from experiments where source = %s order by 1 limit 1", (source,)
    ).fetchone()
    if row is not None:
        return int(row[0])
    return next_free_id(connection) if owner_problem(connection, preferred, source) else preferred


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


def next_command_workload(connection: Connection) -> tuple[int, int]:
    """Return experiment and number of a new workload for a command without a file."""
    source = "bench run"
    with connection.transaction():
        connection.execute("lock table workloads in share row exclusive mode")
        claim_experiment(connection, COMMAND_EXPERIMENT, name=source, source=source, into=True)
        row = connection.execute(
            "select coalesce(max(workload), 0) + 1 from workloads where experiment_id = %s", (COMMAND_EXPERIMENT,)
        ).fetchone()
        assert row is not None
        open_workload(connection, COMMAND_EXPERIMENT, row[0])
    return COMMAND_EXPERIMENT, row[0]
