"""Exporters and a collector as processes of their own, for benchmarks to watch."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hypergauge.core.services import free_port
from hypergauge.sql.server.database import Database
from hypergauge.sql.server.rows import value

__all__ = ["RunningStack", "cpu_seconds", "running", "served"]

_READY_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class RunningStack:
    """Running stack: `urls` of the exporters' metrics, `collector_url` of the collector's own metrics."""

    exporters: dict[str, subprocess.Popen[str]]
    urls: dict[str, str]
    collector: subprocess.Popen[str]
    collector_url: str
    database: Database

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all of them."""
        for process in (*self.exporters.values(), self.collector):
            process.send_signal(number)

    def samples(self) -> int:
        """Return the current number of samples."""
        with self.database.session() as connection:
            return value(connection, int, "select count(*) from samples")


@contextlib.contextmanager
def running(
    database: Database,
    folder: Path,
    exporters: Sequence[str],
    *,
    others: Mapping[str, str] | None = None,
    simulate: str | None = None,
    hz: int = 1,
    lease: float | None = None,
) -> Iterator[RunningStack]:
    """Start exporters and a collector on `database`; it is ready when samples are written.

    Parameters
    ----------
    folder
        Their ``BENCH_HOME``.
    others
        More targets, by job, as ``host:port``.
    simulate
        Simulated GPUs, see `hypergauge.gpu.load`.
    hz
        Scrapes per second.
    lease
        The collector's lease in seconds, if not the default.
    """
    with contextlib.ExitStack() as started:
        processes, urls = {}, {}
        for name in exporters:
            processes[name], urls[name] = started.enter_context(served(name, folder, simulate=simulate))
        targets = [
            {"targets": [url.removeprefix("http://").partition("/")[0]], "labels": {"job": name}}
            for name, url in (*urls.items(), *(others or {}).items())
        ]
        file = folder / "targets.json"
        file.write_text(json.dumps(targets))
        port = free_port()
        words = ("collector", "run", "--targets", str(file), "--port", str(port), "--interval", str(1 / hz))
        variables = {"BENCH_HOME": str(folder), "BENCH_DSN": database.dsn}
        if lease is not None:
            variables["BENCH_LEASE"] = str(lease)
        collector = started.enter_context(_process(words, variables))
        stack = RunningStack(processes, urls, collector, f"http://127.0.0.1:{port}/metrics", database)
        deadline = time.monotonic() + _READY_SECONDS
        while not stack.samples():
            if time.monotonic() > deadline or collector.poll() is not None:
                raise RuntimeError("the collector writes nothing")
            time.sleep(0.2)
        yield stack


@contextlib.contextmanager
def served(name: str, home: Path, *, simulate: str | None = None) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run one exporter, and yield it with the address of its metrics."""
    words = ("exporter", "run", name, *(("--simulate", simulate) if simulate else ()))
    with _process(words, {"BENCH_HOME": str(home)}) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"http://\S+", line)
        if found is None:
            raise RuntimeError(f"the exporter {name} did not start: {line}")
        yield process, found[0]


def cpu_seconds(pid: int) -> float:
    """Return user and system time of a process, all of its threads included."""
    return time.clock_gettime((~pid << 3) | 2)  # as clock_getcpuclockid(3) computes it from a pid in Linux


@contextlib.contextmanager
def _process(words: Sequence[str], variables: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BENCH_")}
    with subprocess.Popen(
        [sys.executable, "-m", "hypergauge.cli", *words],
        env={**environment, **variables},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGCONT)
            process.terminate()
