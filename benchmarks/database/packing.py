"""Packing of a week's samples while collectors write, charts are asked, and server and collectors are killed.

The week of `query` is written into an embedded server. Then two collectors write more, and ``bench db maintain`` packs. The
server, that command and the collectors are killed in turn with ``SIGKILL``, and start again. At the end each series must have
the samples that it had before, bit by bit: count, and sum of a hash over time, tags, value and interval.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.campaign.disturbed_server import DisturbedServer
from benchmarks.database.query import load
from benchmarks.support import telemetry, week
from benchmarks.support.servers import exporter
from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import DatabaseUnavailable
from hypergauge.core.services import free_port
from hypergauge.sql.server.database import Database, lost
from hypergauge.sql.server.embedded import EmbeddedServer

__all__ = ["measure"]

KILLS = 20
_PACKED_SECONDS = 900.0

# Rows and the hash of each series of the week. Series of the collectors have larger ids.
_SUMS = """
select series_id, count(*), sum(hash_record_extended(row(time, runset_id, value, dt), 0)::numeric)
from samples where series_id <= {last} group by series_id order by series_id
"""
_WAITING = "select exists (select from unpacked_samples where time < date_bin('1 hour', now() - '10 min'::interval, '2000-01-03'))"
_TWICE = "select count(*) - count(distinct (series_id, time)) from samples where series_id > {last}"
_LIVE = "select count(*) from samples where series_id > {last}"
_CHART = """
select count(*) from run_chart(array['{run}'], array['gpu_sm_active'], to_timestamp({begin}), to_timestamp({end}), 60000, false, 40,
                               null, false)
"""


def measure(seed: int | None = None) -> dict[str, float | str]:
    """Return what was killed and when, times of charts meanwhile, and findings: series whose samples differ."""
    seed = random.randrange(1_000_000) if seed is None else seed
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="bench-") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        server = DisturbedServer(EmbeddedServer(folder / "server"))
        dsn = stack.enter_context(server.running())
        with Database(Settings(home=folder, dsn=dsn)) as database:
            cluster = load(database)
        [(last,)] = server.query("select max(series_id) from series")
        before = server.query(_SUMS.format(last=last))
        collectors = [stack.enter_context(_collector(folder / name, dsn)) for name in ("first", "second")]
        packer = stack.enter_context(contextlib.closing(_Service(folder / "packer", dsn, "db", "maintain")))
        charts = stack.enter_context(_charts(server, cluster))
        began, kills, restarts = time.monotonic(), 0, []
        for number in range(KILLS):
            time.sleep(chance.uniform(1.0, 4.0))
            kills += _waiting(server)
            killed = time.monotonic()
            if number % 2 == 0:
                with server.killed():
                    pass
                packer.end()
            elif number % 4 == 1:
                packer.end()
            else:
                collectors[number // 4 % 2].end()
            for service in (packer, *collectors):
                service.start()
            restarts.append(time.monotonic() - killed)
        while _waiting(server) and time.monotonic() < began + _PACKED_SECONDS:
            packer.start()
            time.sleep(1)
        seconds, waiting = time.monotonic() - began, _waiting(server)
        after = server.query(_SUMS.format(last=last))
        [(twice,)], [(live,)] = server.query(_TWICE.format(last=last)), server.query(_LIVE.format(last=last))
    findings = [f"series {row[0]}: {row[1:]} before" for row in set(before) ^ set(after)]
    findings += ["samples are not packed"] if waiting else []
    findings += [f"{twice} samples of collectors stand twice"] if twice else []
    return {
        "seed": str(seed),
        "samples": float(sum(int(str(row[1])) for row in before)),
        "kills_while_packing": float(kills),
        "longest_restart_s": max(restarts),
        "packed_after_s": seconds,
        "samples_of_collectors": float(str(live)),
        "charts": float(len(charts)),
        "chart_median_ms": statistics.median(charts) * 1000,
        "chart_p95_ms": statistics.quantiles(charts, n=20)[-1] * 1000,
        "findings": "; ".join(sorted(findings)[:5]),
    }


def _waiting(server: DisturbedServer) -> bool:
    """Return whether samples are due to be packed."""
    [(waiting,)] = server.query(_WAITING)
    return bool(waiting)


class _Service:
    """``bench`` command of a home of its own, which can be killed and started again."""

    def __init__(self, home: Path, dsn: str, *words: str) -> None:
        home.mkdir(exist_ok=True)
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("BENCH_")}
        self._environment = {**inherited, "BENCH_HOME": str(home), "BENCH_DSN": dsn}
        self._words = words
        self._log = (home / "output.log").open("ab")
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start it, unless it runs."""
        if self._process is None or self._process.poll() is not None:
            command = [sys.executable, "-m", "hypergauge.cli", *self._words]
            self._process = subprocess.Popen(command, env=self._environment, stdout=self._log, stderr=self._log)

    def end(self) -> None:
        """Kill it."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Kill it and close its log."""
        self.end()
        self._log.close()


@contextlib.contextmanager
def _collector(home: Path, dsn: str) -> Iterator[_Service]:
    """Run a collector that scrapes simulated GPUs every second."""
    host = telemetry.Host()

    def exposition() -> bytes:
        host.tick(100.0)
        return host.dcgm()

    with exporter(exposition) as target:
        home.mkdir()
        targets = home / "targets.json"
        targets.write_text(json.dumps([{"targets": [target], "labels": {"job": home.name}}]))
        words = ("collector", "run", "--targets", str(targets), "--port", str(free_port()))
        with contextlib.closing(_Service(home, dsn, *words)) as collector:
            yield collector


@contextlib.contextmanager
def _charts(server: DisturbedServer, cluster: week.Cluster) -> Iterator[list[float]]:
    """Ask for a chart of the six-hour run all the time; yield the seconds of each answer."""
    found: list[float] = []
    ended = threading.Event()
    statement = _CHART.format(run=cluster.long_run, begin=cluster.end - 8 * week.HOUR, end=cluster.end - 2 * week.HOUR)

    def ask() -> None:
        while not ended.wait(0.1):
            began = time.perf_counter()
            with contextlib.suppress(*lost, DatabaseUnavailable):
                server.query(statement)
                found.append(time.perf_counter() - began)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join()
