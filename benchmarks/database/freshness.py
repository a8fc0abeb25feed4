"""Time from a scrape until its samples can be read in SQL, with the real loop at 1 Hz."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.measurement.parse import SERIES, exposition
from benchmarks.support.servers import exporter
from hypergauge.sql.server.database import Database

__all__ = ["freshness"]

SECONDS = 60
TARGETS = 8


def freshness(database: Database, folder: Path) -> dict[str, float]:
    """Run a collector on several targets of 1,120 series each, and return the delays until samples are readable, in seconds.

    A scrape is readable when a constantly repeated query first returns its last sample.
    """
    expositions = itertools.cycle([exposition(seed) for seed in range(10)])
    with exporter(lambda: next(expositions)) as address:
        targets = folder / "targets.json"
        groups = [
            {"targets": [address], "labels": {"__param_part": str(n), "job": f"freshness-{n}", "instance": f"part-{n}"}}
            for n in range(TARGETS)
        ]
        targets.write_text(json.dumps(groups))
        collector = subprocess.Popen(
            [sys.executable, "-m", "hypergauge.cli", "collector", "run", "--targets", str(targets), "--interval", "1"],
            env={**os.environ, "BENCH_DSN": database.dsn, "BENCH_HOME": str(folder / "home")},
        )
        try:
            ages = _ages(database)
        finally:
            collector.send_signal(signal.SIGTERM)
            collector.wait()
    return {
        "freshness_series": float(TARGETS * SERIES),
        "freshness_p50_seconds": float(np.percentile(ages, 50)),
        "freshness_p99_seconds": float(np.percentile(ages, 99)),
    }


def _ages(database: Database) -> list[float]:
    """Return the age of each target's newest sample when first seen."""
    seen: dict[int, float] = {}
    ages: list[float] = []
    deadline = time.time() + 60 + SECONDS
    with database.connect() as connection:
        while len(ages) < TARGETS * SECONDS and time.time() < deadline:
            rows = connection.execute(
                """
                select target_id, extract(epoch from x.time)::float8
                from targets t
                cross join lateral (select max(series_id) as last from series s where s.target_id = t.target_id) s
                cross join lateral (select time from samples where series_id = s.last order by time desc limit 1) x
                where listener like 'freshness-%'
                """
            ).fetchall()
            now = time.time()
            for target, at in rows:
                if at > seen.get(target, 0.0):
                    if target in seen:  # the first scrapes wait for new series
                        ages.append(now - at)
                    seen[target] = at
            time.sleep(0.02)
    return ages
