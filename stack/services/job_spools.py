"""Drain of spools whose collectors ended with their jobs: a batch system kills jobs, and nodes fail."""

from __future__ import annotations

import contextlib
import re
import time
from pathlib import Path

from hypergauge.core.errors import BenchError
from hypergauge.sql.runs import jobs
from hypergauge.sql.server.database import Database, lost

__all__ = ["drain_ended_jobs"]

# Time limit for all spools together, at the end of a job; the next job continues.
_DRAIN_SECONDS = 20.0
# Suffix of the folder of a job's second and later starts: `core.files.private.make_numbered_folder`.
_START = re.compile(r"-\d{1,3}$")


def drain_ended_jobs(database: Database, parent: Path) -> None:
    """Write the samples in the spools of ended jobs to the database; the jobs' folders are in `parent`."""
    from hypergauge.collector.write.drain import drain

    until = time.monotonic() + _DRAIN_SECONDS
    spools = {file.parent: _START.sub("", file.parents[1].name) for file in parent.glob("*/spool/*.spool")}
    if not spools:
        return
    with contextlib.suppress(BenchError, *lost), database.session() as connection:
        ended = jobs.ended_jobs(connection, list(spools.values()))
        for spool in (spool for spool, job in spools.items() if job in ended):
            if (seconds := until - time.monotonic()) > 0:
                with contextlib.suppress(BenchError):
                    drain(database, spool, seconds)
