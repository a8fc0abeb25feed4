"""Runs: creation, placement, lease, end."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from psycopg.sql import SQL, Identifier
from psycopg.types.json import Jsonb

from hypergauge.core.config.settings import LEASE_SECONDS
from hypergauge.core.files.run_folder import RunEnd
from hypergauge.sql.ingest.choices import Choice
from hypergauge.sql.ingest.limits import storable
from hypergauge.sql.server.database import Connection
from hypergauge.sql.server.rows import column, first_value, records

__all__ = [
    "KnownRun",
    "NewRun",
    "Placement",
    "create_runs",
    "end_lost_runs",
    "end_run",
    "host_of",
    "known_runs",
    "last_sign_of_life",
    "move_starts",
    "positions_started",
    "renew_lease",
    "set_mlflow_run",
    "start_runs",
]


@dataclass(frozen=True, slots=True)
class NewRun:
    """Run before its start.

    `simulated` marks simulated GPUs; `profilers` are joined by ``+``; `actions` are names of actions by rule; `exporters`
    are those that its row chose, see `hypergauge.sql.ingest.choices`.
    """

    run_id: str
    mlflow_run_id: str | None
    workload_id: int
    position: int
    attempt: int
    name: str
    owner: str
    command: str
    environment: str
    collocation: str
    devices: str
    params: dict[str, str]
    host: str
    fingerprint: str
    simulated: bool = False
    profilers: str = ""
    actions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    exporters: Choice | None = None


@dataclass(frozen=True, slots=True)
class KnownRun:
    """Earlier run of a row, with the fields that the next attempt needs; `job` is the executor's job of the run."""

    run_id: str
    mlflow_run_id: str | None
    workload: int
    position: int
    attempt: int
    fingerprint: str
    status: str
    job: str | None = None
    job_is_open: bool = False


@dataclass(frozen=True, slots=True)
class Placement:
    """Placement of a run: its host, and its GPU or MIG instance if any."""

    run_id: str
    host: str
    gpu_uuid: str | None = None
    gpu_instance_id: int | None = None
    mig_uuid: str | None = None


def known_runs(connection: Connection, experiment: int) -> list[KnownRun]:
    """Return all runs of an experiment, by position and attempt."""
    return records(
        connection,
        KnownRun,
        """
            select run_id, mlflow_run_id, workload, position, attempt, fingerprint, runs.status, job,
                   coalesce(jobs.state <> 'ended', false) as job_is_open
            from runs join workloads using (workload_id) left join jobs using (job) where experiment_id = %s
            order by workload, position, attempt
            """,
        (experiment,),
    )


def create_runs(connection: Connection, runs: Sequence[NewRun], lease: float = LEASE_SECONDS) -> None:
    """Record runs before their start. A queued run receives the fields that only its host knows.

    Collectors follow the runs' choices of exporters for the `lease` in seconds, which the start renews.
    """
    with connection.transaction(), connection.cursor() as cursor:
        cursor.executemany(
            """
            insert into runs (run_id, mlflow_run_id, workload_id, position, attempt, name, owner, command, environment,
                              collocation, devices, params, host, fingerprint, simulated, profilers, actions,
                              exporters, lease_until)
            values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s,
                    now() + make_interval(secs => %s))
            on conflict (run_id) do update set
                host = excluded.host, devices = excluded.devices, simulated = excluded.simulated,
                lease_until = excluded.lease_until
            """,
            [
                (r.run_id, r.mlflow_run_id, r.workload_id, r.position, r.attempt, storable(r.name), r.owner,
                 storable(r.command), storable(r.environment), r.collocation, r.devices,
                 Jsonb({storable(name): storable(value) for name, value in r.params.items()}), r.host, r.fingerprint,
                 r.simulated, r.profilers, Jsonb(dict(r.actions)),
                 None if r.exporters is None else Jsonb(dict(r.exporters)), lease)
                for r in runs
            ],
        )  # fmt: skip


def set_mlflow_run(connection: Connection, run_id: str, mlflow_run_id: str) -> None:
    """Record the MLflow run of a run that started while MLflow was unavailable."""
    connection.execute("update runs set mlflow_run_id = %s where run_id = %s", (mlflow_run_id, run_id))


def start_runs(
    connection: Connection,
    workload_id: int,
    placements: Sequence[Placement],
    started_at: float | None = None,
    lease: float = LEASE_SECONDS,
) -> float:
    """Place runs of a workload from `started_at` (Unix seconds) on, all or none. Later samples carry their tags.

    By default the runs start once the transaction holds the tag lock. Return the start time. Repeating the call is
    safe until the first run is released.
    """
    with connection.transaction(), connection.cursor() as cursor:
        # A writer of samples holds this lock only briefly, before its commit.
        cursor.execute("select from tag_version for update")
        started_at = time.time() if started_at is None else started_at
        cursor.execute(
            """
            update workloads set status = 'running', ended_at = null, started_at = least(started_at, to_timestamp(%s))
            where workload_id = %s
            """,
            (started_at, workload_id),
        )
        cursor.executemany(
            """
            update runs set status = 'running', started_at = to_timestamp(%s),
                            lease_until = now() + make_interval(secs => %s)
            where run_id = %s
            """,
            [(started_at, lease, run_id) for run_id in dict.fromkeys(p.run_id for p in placements)],
        )
        cursor.executemany(
            """
            insert into placements (run_id, host, gpu_uuid, gpu_instance_id, mig_uuid, started_at)
            values (%s, %s, %s, %s, %s, to_timestamp(%s))
            on conflict (run_id, host, gpu_uuid, gpu_instance_id) do update set started_at = excluded.started_at
            """,
            [(p.run_id, p.host, p.gpu_uuid, p.gpu_instance_id, p.mig_uuid, started_at) for p in placements],
        )
    return started_at


def move_starts(connection: Connection, workload_id: int, run_ids: Sequence[str], before: float, now: float) -> None:
    """Move the start of a workload's runs from `before` to `now`, both in Unix seconds; safe to repeat."""
    with connection.transaction():
        connection.execute("select from tag_version for update")
        connection.execute(
            "update workloads set started_at = to_timestamp(%s) where workload_id = %s and started_at = to_timestamp(%s)",
            (now, workload_id, before),
        )
        for table in ("runs", "placements"):  # a lost run may have ended before `now`, at its last sign of life
            connection.execute(
                SQL("""
                update {} set started_at = to_timestamp(%(now)s),
                    ended_at = case when ended_at < to_timestamp(%(now)s) then to_timestamp(%(now)s) else ended_at end
                where run_id = any(%(runs)s)
                """).format(Identifier(table)),
                {"now": now, "runs": list(run_ids)},
            )


def renew_lease(connection: Connection, run_id: str, root_pid: int, lease: float) -> None:
    """Renew the lease of a run's supervisor, and record the watched process."""
    connection.execute(
        "update runs set lease_until = now() + make_interval(secs => %s) where run_id = %s and status = 'running'",
        (lease, run_id),
    )
    connection.execute(
        "update placements set root_pid = %s where run_id = %s and root_pid is distinct from %s",
        (root_pid, run_id, root_pid),
    )


def end_run(connection: Connection, run_id: str, end: RunEnd) -> None:
    """Record a run's end as its supervisor reports it; safe to repeat."""
    connection.execute(
        "select end_run(%s, %s, to_timestamp(%s), %s, %s)",
        (run_id, end.status, end.ended_at, end.exit_code, end.reason and storable(end.reason)),
    )


def end_lost_runs(connection: Connection, lease: float = LEASE_SECONDS) -> list[str]:
    """End the runs whose supervisors and processes have been silent for longer than a lease. Return their ids."""
    silent = connection.execute("select run_id from runs where status = 'running' and lease_until < now()").fetchall()
    ended = "select run_id from runs where run_id = %s and end_lost_run(run_id, make_interval(secs => %s))"
    return [run_id for (run_id,) in silent if connection.execute(ended, (run_id, lease)).fetchone()]


def host_of(connection: Connection, run_id: str) -> str | None:
    """Return the host of a run."""
    return first_value(connection, str, "select host from runs where run_id = %s", (run_id,))


def positions_started(connection: Connection, workload_id: int, host: str, since: float) -> set[int]:
    """Return the positions of a workload whose runs started on `host` since `since` (Unix seconds)."""
    return set(
        column(
            connection,
            "select distinct position from runs where workload_id = %s and host = %s and started_at >= to_timestamp(%s)",
            (workload_id, host, since),
        )
    )


def last_sign_of_life(connection: Connection, run_id: str) -> float | None:
    """Return the time of the last sample of a run's processes, in Unix seconds."""
    return first_value(connection, float, "select extract(epoch from last_sign_of_life(%s))::float8", (run_id,))
