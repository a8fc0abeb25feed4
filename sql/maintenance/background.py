"""Failing background jobs, with a check of their results. TimescaleDB only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import LiteralString

from psycopg.errors import InsufficientPrivilege

from hypergauge.core.pages import Page
from hypergauge.sql.schema.flavour import Flavour, inspect
from hypergauge.sql.server.database import Connection

__all__ = ["FailingJob", "failing_jobs"]

# Some pairs of versions fail every job with this error after the job has committed its work.
_PORTAL = 'cannot drop portal "" while it is being set up'
_SOUND = "PostgreSQL 18.4 with TimescaleDB 2.29.2"


@dataclass(frozen=True, slots=True)
class FailingJob:
    """Background job whose last runs failed.

    Attributes
    ----------
    name
        Task and relation of the job.
    error
        Last error; ``None`` if the user may not see it.
    since
        Time of the first failure after the last success; ``None`` if not recorded.
    done
        Whether the job's work is done despite the failure; ``None`` if unknown.
    remedy
        Advice to the user.
    """

    job_id: int
    name: str
    error: str | None
    since: datetime | None
    done: bool | None
    remedy: str

    def describe(self) -> str:
        """Return a one-line description."""
        since = f" since {self.since.astimezone(UTC):%Y-%m-%d %H:%M} UTC" if self.since else ""
        work = {
            True: "its work is done anyway",
            False: "its work is not done",
            None: "its work is unknown",
        }
        error = self.error or "see its owner, and the server's log"
        return Page.BACKGROUND_JOBS.after(
            f"{self.name} (job {self.job_id}) fails{since}: {error}; {work[self.done]}; {self.remedy}"
        )


def failing_jobs(connection: Connection) -> list[FailingJob]:
    """Return the jobs that failed twice in a row, or once with the error of a faulty pair of versions.

    Any other single failure is normal: a job fails on a chunk that `maintain` has locked, and its next run retries.
    """
    server = inspect(connection)
    if server.flavour is not Flavour.TIMESCALEDB:
        return []
    rows = connection.execute(
        """
        select j.job_id, j.proc_name, coalesce(c.view_name, j.hypertable_name), e.err_message, e.since
        from timescaledb_information.jobs j
        join _timescaledb_internal.bgw_job_stat s using (job_id)
        left join timescaledb_information.continuous_aggregates c
               on (c.materialization_hypertable_schema, c.materialization_hypertable_name)
                = (j.hypertable_schema, j.hypertable_name)  -- or it is named by its view already
        left join lateral (
            select min(start_time) as since, (array_agg(err_message order by start_time desc))[1] as err_message
            from timescaledb_information.job_errors
            where job_id = j.job_id and start_time > s.last_successful_finish) e on true
        where j.scheduled and (s.consecutive_failures > 1 or s.consecutive_failures = 1 and e.err_message = %s)
        order by j.job_id
        """,
        (_PORTAL,),
    ).fetchall()
    return [
        FailingJob(
            job, _name(program, relation), error, since, _done(connection, program, job),
            _remedy(program, error, server.describe()),
        )
        for job, program, relation, error, since in rows
    ]  # fmt: skip


# Checks of the jobs' results, with tolerance for the delay of a healthy job.
_DONE: dict[str, LiteralString] = {
    "refresh": """
        select not exists (select from bench.series s where exists (
            select from bench.samples x
            where x.series_id = s.series_id and x.time >= w.watermark and x.time < now() - interval '5 min'))
        from (select _timescaledb_functions.to_timestamp(_timescaledb_functions.cagg_watermark(mat_hypertable_id))
              from _timescaledb_catalog.continuous_agg
              where user_view_schema = 'bench' and user_view_name = 'samples_10s') w (watermark)
        """,
    "retain": """
        select coalesce(raw_cutoff >= date_trunc('day', now() - keep_raw - interval '1 day', 'UTC'), true) from bench_internal.retention
        """,
    "policy_compression": """
        select not exists (select from bench_internal.chunks_to_compress(interval '1 day') c
                           where c.job_id = %(job)s and not c.is_compressed)
        """,
}


def _done(connection: Connection, program: str, job: int) -> bool | None:
    if program not in _DONE:
        return None
    try:
        row = connection.execute(_DONE[program], {"job": job}).fetchone()
    except InsufficientPrivilege:  # the user sees only their own runs
        return None
    return None if row is None else row[0]


def _name(program: str, relation: str | None) -> str:
    known = {
        "refresh": "refresh of aggregates",
        "retain": "retention",
        "policy_compression": f"compression of {relation}",
        "policy_telemetry": "TimescaleDB's telemetry",
        "policy_job_stat_history_retention": "TimescaleDB's removal of old job records",
    }
    return known.get(program, program)


def _remedy(program: str, error: str | None, server: str) -> str:
    if error == _PORTAL:
        return f"every job fails like this with {server}, a defect of these versions: use others, such as {_SOUND}"
    if error is not None and "failed to start" in error:
        return "no slot was free for it: alter system set max_worker_processes = 32, and restart the server"
    if program == "policy_telemetry":
        return "it is optional: alter system set timescaledb.telemetry_level = 'off'"
    return "`bench db maintain` does the work of our jobs now"
