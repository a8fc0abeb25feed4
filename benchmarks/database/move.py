"""Move of some days' samples to TimescaleDB and back: each way copies, compresses or packs, and verifies.

Both servers are on this machine and share its cores.
"""

from __future__ import annotations

import math
import re
import time
from pathlib import Path

from benchmarks.support import week
from benchmarks.support.servers import Kind, own_database
from hypergauge.sql.ingest import samples
from hypergauge.sql.maintenance import aggregates
from hypergauge.sql.server.database import Database
from hypergauge.sql.transfer.move.move import move

__all__ = ["measure"]

SAMPLES = 5_000_000


def measure() -> dict[str, float | str]:
    """Return samples per second of each way, and the process's peak memory."""
    with (
        own_database("from", Kind.POSTGRESQL) as source,
        own_database("to", Kind.TIMESCALEDB) as server,
        own_database("back", Kind.POSTGRESQL) as back,
    ):
        with source.session() as connection:
            cluster = week.build(connection, time.time())
            written = 0
            for columns in week.rows(cluster, connection):
                samples.copy_samples(connection, samples.Columns(*columns))
                if (written := written + len(columns[0])) >= SAMPLES:
                    break
            aggregates.maintain(connection)
        count, there = _timed(source, server)
        _, here = _timed(server, back)
    peak = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    return {
        "samples": float(count),
        "to_timescaledb_per_second": count / there,
        "back_per_second": count / here,
        "peak_mib": int(peak[1]) / 1024 if peak else math.nan,
    }


def _timed(source: Database, target: Database) -> tuple[int, float]:
    began = time.perf_counter()
    return move(source, target).samples, time.perf_counter() - began
