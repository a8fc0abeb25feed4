"""Move of some days' samples to TimescaleDB and back: each way copies, compresses or packs, and verifies.

Both servers are on this machine and share its cores.
"""

from __future__ import annotations

import math
import re
import time
from pathlib import Path

from benchmarks.support import week
from benchmarks.support.servers import Kind, own_database, server_seconds
from hypergauge.sql.ingest import samples
from hypergauge.sql.maintenance import aggregates
from hypergauge.sql.server.database import Database
from hypergauge.sql.transfer.move.move import move

__all__ = ["measure"]

SAMPLES = 5_000_000


def measure() -> dict[str, float | str]:
    """Return samples per second of each way, the CPU time of a sample in all processes, and this process's peak memory."""
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
        there = _timed("to_timescaledb", source, server)
        here = _timed("back", server, back)
    peak = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    return {**there, **here, "peak_mib": int(peak[1]) / 1024 if peak else math.nan}


def _timed(name: str, source: Database, target: Database) -> dict[str, float | str]:
    began, began_cpu = time.perf_counter(), _cpu_seconds(source, target)
    count = move(source, target).samples
    elapsed, cpu = time.perf_counter() - began, _cpu_seconds(source, target) - began_cpu
    return {
        "samples": float(count),
        f"{name}_per_second": count / elapsed,
        f"{name}_cpu_microseconds": cpu / count * 1e6,
    }


def _cpu_seconds(*databases: Database) -> float:
    return time.process_time() + sum(map(server_seconds, databases))
