"""Limits of collectors: a thousand exporters of 50 series each at 1 Hz, and more until a limit is reached.

One collector, then two and four that split the targets. One of them is killed and replaced by a new one. Missed scrapes are
those absent from the database between each target's first and last scrape.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil

from benchmarks.support.imitation import SERIES, imitated
from benchmarks.support.servers import Kind, own_database, server_seconds
from benchmarks.support.stack import cpu_seconds
from hypergauge.core.services import free_port
from hypergauge.sql.schema.flavour import inspect
from hypergauge.sql.server.database import Database
from hypergauge.sql.server.rows import value

__all__ = ["measure"]

TARGETS = 1000
# Maximum number of targets, and step.
MOST, MORE = 3000, 250
_READY_SECONDS = 120.0
_SETTLE_SECONDS = 10.0
_STEP_SECONDS = 20.0
# Records in the spool. Each collector adds some fifty per second, so this many mean a lag of seconds.
_BEHIND = 500
# Share of a core, or of all cores, from which on a process counts as saturated.
_FULL = 0.85


def measure(minutes: float = 5.0, server: Kind | None = None) -> dict[str, float | str]:
    """Return missed scrapes and costs of one, two and four collectors in that many minutes each, and the first limit."""
    with (
        own_database("scale", server) as database,
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        imitated(MOST) as (imitation, addresses),
    ):
        with database.session() as connection:
            results: dict[str, float | str] = {"flavour": inspect(connection).flavour.value}
        results |= {"targets": float(TARGETS), "series": float(TARGETS * SERIES), "seconds_each": minutes * 60}
        for count in (1, 2, 4):
            site = _Site(database, Path(folder) / str(count), imitation.pid, addresses)
            with site.collecting(count):
                found = site.watched(minutes * 60, replace=count > 1)
                results |= {f"{count}_{name}": value for name, value in found.items()}
                if count < 4:
                    results |= {f"{count}_{name}": value for name, value in site.limit().items()}
    return results


@dataclass
class _Site:
    """Collectors of one database with the same targets."""

    database: Database
    folder: Path
    imitation: int
    addresses: Sequence[str]
    targets: int = 0
    collectors: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)  # by port

    @contextlib.contextmanager
    def collecting(self, count: int) -> Iterator[None]:
        """Run `count` collectors, ready when all targets answer."""
        self.folder.mkdir()
        self.give(TARGETS)
        try:
            for _ in range(count):
                self.start()
            self.wait()
            yield
        finally:
            for process in self.collectors.values():
                process.send_signal(signal.SIGTERM)
            for process in self.collectors.values():
                process.wait()

    def give(self, targets: int) -> None:
        """Set the number of targets."""
        self.targets = targets
        groups = [
            {"targets": [address], "labels": {"job": "nvml", "host": f"node{number}"}}
            for number, address in enumerate(self.addresses[:targets])
        ]
        (self.folder / "written.json").write_text(json.dumps(groups))
        (self.folder / "written.json").rename(self.folder / "targets.json")

    def start(self) -> None:
        """Start another collector with a spool of its own."""
        port = free_port()
        words = ("collector", "run", "--targets", str(self.folder / "targets.json"), "--port", str(port))
        others = {name: value for name, value in os.environ.items() if not name.startswith("BENCH_")}
        self.collectors[port] = subprocess.Popen(
            [sys.executable, "-m", "hypergauge.cli", *words],
            env={**others, "BENCH_DSN": self.database.dsn, "BENCH_HOME": str(self.folder / f"home-{port}")},
        )

    def kill(self) -> None:
        """Kill one of them."""
        _, process = self.collectors.popitem()
        process.kill()
        process.wait()

    def wait(self) -> None:
        """Wait until all targets answer, and then for the rates to settle."""
        deadline = time.monotonic() + _READY_SECONDS
        while self.own()['targets{state="up"}'] < self.targets:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.targets} targets are not scraped within {_READY_SECONDS:g} s")
            time.sleep(1)
        time.sleep(_SETTLE_SECONDS)

    def own(self) -> Counter[str]:
        """Return the sum of the collectors' own metrics."""
        found: Counter[str] = Counter()
        for port in self.collectors:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
                for name, value in re.findall(r"^bench_collector_(\S+) (\S+)$", answer.read().decode(), re.MULTILINE):
                    found[name] += float(value)  # type: ignore[assignment]
        return found

    def watched(self, seconds: float, *, replace: bool) -> dict[str, float]:
        """Return scrapes and costs over that many seconds; with `replace`, kill a collector after a third of them.

        Costs then cover the last third, in which all collectors work, else the whole time.
        """
        since, began = time.time(), self._taken()
        ages = self._ages(seconds / 3)
        memory = self._memory()
        if replace:
            self.kill()
            self.start()
            ages += self._ages(seconds / 3)
            began = self._taken()
        ages += self._ages(since + seconds - time.time())
        results = self._shares(began, self._taken())
        results |= {"memory_mib": self._memory() / 2**20, "age_p99_seconds": float(np.percentile(ages, 99))}
        if not replace:  # a new collector's memory is all growth
            results["memory_grown_mib"] = (self._memory() - memory) / 2**20
        time.sleep(3)  # until the last scrapes are written
        return {**results, **self._missed(since, since + seconds)}

    def limit(self) -> dict[str, float | str]:
        """Return the number of targets at which scrapes are missed, and the limit that causes it."""
        while True:
            held = self.targets
            if held + MORE > MOST:
                return {"limit": f"none up to {held} targets", "limit_targets": float(held)}
            self.give(held + MORE)
            time.sleep(_SETTLE_SECONDS + 0.02 * MORE)
            since, began = time.time(), self._taken()
            time.sleep(_STEP_SECONDS)
            ended = self._taken()
            results = self._shares(began, ended)
            failed = ended.missed - began.missed
            behind = ended.waiting > _BEHIND
            if failed > 0.001 * self.targets * (time.time() - since) or behind:
                return {
                    "limit": _what_gave(results, behind=behind),
                    "limit_targets": float(held),
                    **{f"limit_{name}": value for name, value in results.items()},
                }

    def _taken(self) -> _Taken:
        own = self.own()
        outcomes = sum(value for name, value in own.items() if name.startswith("scrapes_total"))
        busy = psutil.cpu_times()
        return _Taken(
            time.time(),
            own["missed_scrapes_total"] + outcomes - own['scrapes_total{outcome="ok"}'],
            own["samples_total"],
            own["spool_records"],
            {pid: cpu_seconds(pid) for pid in self._pids()},
            {pid: _main_thread(pid) for pid in self._pids()},
            cpu_seconds(self.imitation),
            *self._database_used(),
            sum(busy) - busy.idle - busy.iowait - busy.guest - busy.guest_nice,
            {name: value for name, value in own.items() if name.startswith("scrape_lag_seconds_bucket")},
        )

    def _pids(self) -> list[int]:
        return [process.pid for process in self.collectors.values()]

    def _memory(self) -> float:
        return float(sum(psutil.Process(pid).memory_info().rss for pid in self._pids()))

    def _database_used(self) -> tuple[float, float]:
        """Return the server's WAL bytes and its CPU time with child processes, 0 for another host."""
        with self.database.session() as connection:
            written = value(connection, float, "select (pg_current_wal_lsn() - '0/0')::float8")
        return written, server_seconds(self.database, 0.0)

    def _shares(self, began: _Taken, ended: _Taken) -> dict[str, float]:
        """Return the costs in between, as shares of a core and per second."""
        seconds = ended.at - began.at

        def share(before: dict[int, float], after: dict[int, float]) -> list[float]:
            return [(value - before.get(pid, 0.0)) / seconds for pid, value in after.items()]

        return {
            "samples_per_second": (ended.samples - began.samples) / seconds,
            "wal_bytes_per_sample": (ended.wal - began.wal) / max(ended.samples - began.samples, 1.0),
            "lag_p99_seconds": _quantile(began.lags, ended.lags, 0.99),
            "collectors_cpu_share": sum(share(began.collectors, ended.collectors)),
            "busiest_loop_cpu_share": max(share(began.loops, ended.loops)),
            "database_cpu_share": (ended.database - began.database) / seconds,
            "imitation_cpu_share": (ended.imitation - began.imitation) / seconds,
            "machine_busy_share": (ended.machine - began.machine) / seconds / (psutil.cpu_count() or 1),
        }

    def _ages(self, seconds: float) -> list[float]:
        """Return the ages of the newest readable sample of some targets, measured repeatedly for that many seconds."""
        ages: list[float] = []
        until = time.monotonic() + seconds
        with self.database.connect() as connection:
            while time.monotonic() < until:
                rows = connection.execute(
                    """
                    select extract(epoch from clock_timestamp() - x.time)::float8
                    from (select min(series_id) as first from series group by target_id order by 1 limit 20) s
                    cross join lateral (select time from samples where series_id = s.first order by time desc limit 1) x
                    """
                ).fetchall()
                ages += [age for (age,) in rows]
                time.sleep(1)
        return ages

    def _missed(self, since: float, until: float) -> dict[str, float]:
        """Return the scrapes in between that the database lacks, and those that it has twice."""
        with self.database.session() as connection:
            rows = connection.execute(
                """
                select count(distinct time), count(*), extract(epoch from max(time) - min(time))::float8, max(gap)
                from (select min(series_id) as first from series group by target_id) s
                cross join lateral (
                    select time, extract(epoch from time - lag(time) over (order by time))::float8 as gap from samples
                    where series_id = s.first and time >= to_timestamp(%s) and time < to_timestamp(%s)) x
                group by s.first
                """,
                (since, until),
            ).fetchall()
        return {
            "scraped_targets": float(len(rows)),
            "missed_intervals": float(sum(round(span) - (scrapes - 1) for scrapes, _, span, _ in rows)),
            "longest_gap_seconds": max(gap for *_, gap in rows),
            "scrapes_twice": float(sum(count - scrapes for scrapes, count, _, _ in rows)),
        }


@dataclass(frozen=True, slots=True)
class _Taken:
    """Totals until a time: CPU seconds, samples, scrapes missed or failed, bytes, lags by bucket."""

    at: float
    missed: float
    samples: float
    waiting: float
    collectors: dict[int, float]
    loops: dict[int, float]
    imitation: float
    wal: float
    database: float
    machine: float
    lags: dict[str, float]


def _main_thread(pid: int) -> float:
    """Return the CPU time of a process's first thread, which fetches and parses in a collector."""
    return next((one.user_time + one.system_time for one in psutil.Process(pid).threads() if one.id == pid), 0.0)


def _quantile(before: dict[str, float], after: dict[str, float], share: float) -> float:
    """Return a quantile of a histogram's new entries: the upper end of its bucket."""
    buckets = sorted((float(name.split('"')[1]), count - before.get(name, 0.0)) for name, count in after.items())
    return next((end for end, count in buckets if count >= share * buckets[-1][1]), float("inf"))


def _what_gave(results: dict[str, float], *, behind: bool) -> str:
    """Return the saturated part."""
    if results["imitation_cpu_share"] > _FULL:
        return "the process with the imitated targets"
    if results["busiest_loop_cpu_share"] > _FULL:
        return "a collector's event loop, which fetches and parses"
    together = ("collectors_cpu_share", "database_cpu_share", "imitation_cpu_share")
    if sum(results[name] for name in together) > _FULL * (psutil.cpu_count() or 1):
        return "all of the machine's cores together"
    return "writing" if behind else "no saturated part"
