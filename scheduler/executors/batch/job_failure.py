"""Failure of a job that cannot run its runs."""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Iterator

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BenchError
from hypergauge.sql.runs import jobs
from hypergauge.sql.server.database import Database

__all__ = ["reported_failure"]


@contextlib.contextmanager
def reported_failure(job: str) -> Iterator[None]:
    """Store why a job cannot run its runs in the database, for the scheduler that monitors the job."""
    try:
        yield
    except (BenchError, OSError) as error:
        why = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)
        with contextlib.suppress(BenchError), Database(Settings.load()).session() as connection:
            jobs.fail_job(connection, job, f"{platform.node()}: {why}")
        raise
