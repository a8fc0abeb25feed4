"""Jobs of executors: state, and their accounting of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass

from psycopg.rows import class_row

from hypergauge.sql.runs import runs
from hypergauge.sql.server.database import Connection

__all__ = [
    "Account",
    "JobRow",
    "JobRun",
    "ask_to_stop",
    "asked_to_stop",
    "end_job",
    "ended_jobs",
    "fail_job",
    "find_job",
    "give_to_job",
    "job_runs",
    "open_runs",
    "record_accounts",
    "record_job",
    "set_job",
    "submitted",
    "withdraw",
]


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job; `job` is the name that we gave it, `native_id` its id there, ``None`` where we have not heard it."""

    job: str
    executor: str
    native_id: str | None
    state: str
    reason: str | None
    host: str | None
    failure: str | None


@dataclass(frozen=True, slots=True)
class JobRun:
    """A run of a job, as its submitter sees it; times are Unix seconds."""

    run_id: str
    mlflow_run_id: str | None
    position: int
    attempt: int
    name: str
    status: str
    started_at: float | None
    ended_at: float | None
    exit_code: int | None
    reason: str | None
    stop_reason: str | None


@dataclass(frozen=True, slots=True)
class Account:
    """Accounting of one run by an executor, in SI units; ``None`` for a missing value."""

    step: str
    state: str
    elapsed_seconds: float | None = None
    cpu_seconds: float | None = None
    max_rss_bytes: float | None = None
    energy_joules: float | None = None


def record_job(
    connection: Connection, job: str, executor: str, workload_id: int, new_runs: Sequence[runs.NewRun]
) -> None:
    """Record a job that is about to be handed in, with its runs."""
    with connection.transaction():
        connection.execute(
            "insert into jobs (job, executor, workload_id) values (%s, %s, %s) on conflict (job) do nothing",
            (job, executor, workload_id),
        )
        runs.create_runs(connection, new_runs)
        give_to_job(connection, job, [run.run_id for run in new_runs])


def submitted(connection: Connection, job: str, native_id: str) -> None:
    """Record what a job is called there."""
    connection.execute("update jobs set native_id = %s where job = %s", (native_id, job))


def set_job(connection: Connection, job: str, state: str, reason: str | None, host: str | None) -> None:
    """Record how a job goes on; a host that is not known any more stays."""
    connection.execute(
        "update jobs set state = %s, reason = %s, host = coalesce(%s, host) where job = %s", (state, reason, host, job)
    )


def end_job(connection: Connection, job: str, reason: str | None, ended_at: float | None) -> None:
    """Record that a job has ended, now or when it did (Unix seconds)."""
    connection.execute(
        "update jobs set state = 'ended', reason = %s, ended_at = coalesce(to_timestamp(%s), now()) where job = %s",
        (reason, ended_at, job),
    )


def ended_jobs(connection: Connection, names: Sequence[str]) -> set[str]:
    """Return those of these jobs that have ended."""
    rows = connection.execute("select job from jobs where state = 'ended' and job = any(%s)", (list(names),)).fetchall()
    return {job for (job,) in rows}


def fail_job(connection: Connection, job: str, failure: str) -> None:
    """Record why a job could not begin its runs, as its own process says it."""
    connection.execute("update jobs set failure = %s where job = %s", (failure, job))


def find_job(connection: Connection, run_id: str) -> JobRow | None:
    """Return the job of a run, ``None`` where it has none."""
    with connection.cursor(row_factory=class_row(JobRow)) as cursor:
        return cursor.execute(
            """
            select job, executor, native_id, state, j.reason, j.host, failure
            from jobs j join runs r using (job) where run_id = %s
            """,
            (run_id,),
        ).fetchone()


def job_runs(connection: Connection, job: str) -> list[JobRun]:
    """Return the runs of a job, by position and attempt: those that it has repeated after a restart are there too."""
    with connection.cursor(row_factory=class_row(JobRun)) as cursor:
        return cursor.execute(
            """
            select run_id, mlflow_run_id, position, attempt, name, status,
                   extract(epoch from started_at)::float8 as started_at,
                   extract(epoch from ended_at)::float8 as ended_at, exit_code, reason,
                   stop_reason
            from runs where job = %s order by position, attempt
            """,
            (job,),
        ).fetchall()


def give_to_job(connection: Connection, job: str, run_ids: Sequence[str]) -> None:
    """Record that runs are those of a job."""
    connection.execute("update runs set job = %s where run_id = any(%s)", (job, list(run_ids)))


def ask_to_stop(connection: Connection, run_ids: Sequence[str], reason: str) -> None:
    """Ask for the end of runs that have not ended, wherever they are; the first reason stays."""
    connection.execute(
        """
        update runs set stop_reason = coalesce(stop_reason, %s)
        where run_id = any(%s) and status in ('pending', 'running')
        """,
        (reason, list(run_ids)),
    )


def withdraw(connection: Connection, job: str, reason: str) -> None:
    """End the runs of a job that have not begun, since it will not run."""
    for run in job_runs(connection, job):
        if run.status == "pending":
            connection.execute("select end_run(%s, 'stopped', now(), null, %s)", (run.run_id, reason))


def open_runs(connection: Connection, run_ids: Sequence[str]) -> list[str]:
    """Return those of these runs that have not ended."""
    rows = connection.execute(
        "select run_id from runs where run_id = any(%s) and status in ('pending', 'running')", (list(run_ids),)
    ).fetchall()
    return [run_id for (run_id,) in rows]


def asked_to_stop(connection: Connection, job: str) -> dict[str, str]:
    """Return why runs of a job that have not ended are to be, by run id."""
    rows = connection.execute(
        """
        select run_id, stop_reason from runs
        where job = %s and stop_reason is not null and status in ('pending', 'running')
        """,
        (job,),
    ).fetchall()
    return dict(rows)


def record_accounts(connection: Connection, accounts: Mapping[str, Account]) -> None:
    """Record what runs have used by the executor's accounting, by run id; a later figure replaces an earlier one."""
    with connection.transaction(), connection.cursor() as cursor:
        cursor.executemany(
            """
            insert into accounting (run_id, step, state, elapsed_seconds, cpu_seconds, max_rss_bytes, energy_joules)
            select run_id, %s, %s, %s, %s, %s, %s from runs where run_id = %s
            on conflict (run_id) do update set
                step = excluded.step, state = excluded.state, elapsed_seconds = excluded.elapsed_seconds,
                cpu_seconds = excluded.cpu_seconds, max_rss_bytes = excluded.max_rss_bytes,
                energy_joules = excluded.energy_joules
            """,
            [(*astuple(account), run_id) for run_id, account in accounts.items()],
        )
