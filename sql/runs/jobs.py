"""Jobs of executors: state, and accounting of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass

from hypergauge.sql.runs import runs
from hypergauge.sql.server.database import Connection
from hypergauge.sql.server.rows import column, first_record, records

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
    """Job of an executor; `job` is our name, `native_id` the executor's id, ``None`` until known."""

    job: str
    executor: str
    native_id: str | None
    state: str
    reason: str | None
    host: str | None
    failure: str | None


@dataclass(frozen=True, slots=True)
class JobRun:
    """Run of a job, as the submitter sees it; times are Unix seconds."""

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
    """Record a job with its runs, before its submission."""
    with connection.transaction():
        connection.execute(
            "insert into jobs (job, executor, workload_id) values (%s, %s, %s) on conflict (job) do nothing",
            (job, executor, workload_id),
        )
        runs.create_runs(connection, new_runs)
        give_to_job(connection, job, [run.run_id for run in new_runs])


def submitted(connection: Connection, job: str, native_id: str) -> None:
    """Record the executor's id of a job."""
    connection.execute("update jobs set native_id = %s where job = %s", (native_id, job))


def set_job(connection: Connection, job: str, state: str, reason: str | None, host: str | None) -> None:
    """Record the state of a job. A known host stays if the executor no longer reports it."""
    connection.execute(
        "update jobs set state = %s, reason = %s, host = coalesce(%s, host) where job = %s", (state, reason, host, job)
    )


def end_job(connection: Connection, job: str, reason: str | None, ended_at: float | None) -> None:
    """Record the end of a job at `ended_at` (Unix seconds), by default now."""
    connection.execute(
        "update jobs set state = 'ended', reason = %s, ended_at = coalesce(to_timestamp(%s), now()) where job = %s",
        (reason, ended_at, job),
    )


def ended_jobs(connection: Connection, names: Sequence[str]) -> set[str]:
    """Return the jobs among `names` that have ended."""
    return set(column(connection, "select job from jobs where state = 'ended' and job = any(%s)", (list(names),)))


def fail_job(connection: Connection, job: str, failure: str) -> None:
    """Record why a job could not start its runs, as reported by the job's process."""
    connection.execute("update jobs set failure = %s where job = %s", (failure, job))


def find_job(connection: Connection, run_id: str) -> JobRow | None:
    """Return the job of a run, ``None`` for a run without a job."""
    return first_record(
        connection,
        JobRow,
        """
            select job, executor, native_id, state, j.reason, j.host, failure
            from jobs j join runs r using (job) where run_id = %s
            """,
        (run_id,),
    )


def job_runs(connection: Connection, job: str) -> list[JobRun]:
    """Return the runs of a job by position and attempt, including attempts before a restart."""
    return records(
        connection,
        JobRun,
        """
            select run_id, mlflow_run_id, position, attempt, name, status,
                   extract(epoch from started_at)::float8 as started_at,
                   extract(epoch from ended_at)::float8 as ended_at, exit_code, reason,
                   stop_reason
            from runs where job = %s order by position, attempt
            """,
        (job,),
    )


def give_to_job(connection: Connection, job: str, run_ids: Sequence[str]) -> None:
    """Assign runs to a job."""
    connection.execute("update runs set job = %s where run_id = any(%s)", (job, list(run_ids)))


def ask_to_stop(connection: Connection, run_ids: Sequence[str], reason: str) -> None:
    """Request the end of pending and running runs on any host. The first reason stays."""
    connection.execute(
        """
        update runs set stop_reason = coalesce(stop_reason, %s)
        where run_id = any(%s) and status in ('pending', 'running')
        """,
        (reason, list(run_ids)),
    )


def withdraw(connection: Connection, job: str, reason: str) -> None:
    """Stop the pending runs of a job that will not run."""
    for run in job_runs(connection, job):
        if run.status == "pending":
            connection.execute("select end_run(%s, 'stopped', now(), null, %s)", (run.run_id, reason))


def open_runs(connection: Connection, run_ids: Sequence[str]) -> list[str]:
    """Return the runs among `run_ids` that have not ended."""
    return column(
        connection,
        "select run_id from runs where run_id = any(%s) and status in ('pending', 'running')",
        (list(run_ids),),
    )


def asked_to_stop(connection: Connection, job: str) -> dict[str, str]:
    """Return the stop requests of a job's pending and running runs: reason by run id."""
    rows = connection.execute(
        """
        select run_id, stop_reason from runs
        where job = %s and stop_reason is not null and status in ('pending', 'running')
        """,
        (job,),
    ).fetchall()
    return dict(rows)


def record_accounts(connection: Connection, accounts: Mapping[str, Account]) -> None:
    """Store the executor's accounting by run id. Later values replace earlier ones."""
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
