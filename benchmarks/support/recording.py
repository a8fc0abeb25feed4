"""Recording of the exporters ``host`` and ``process`` during real runs, second by second.

``python -m benchmarks.support.recording`` writes the file again in some 20 minutes: the product runs trainings
of 60 s and one of 10 min, and its exporters are scraped as by the collector.
"""

from __future__ import annotations

import csv
import http.client
import json
import lzma
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

from hypergauge.collector.discovery.targets import Target, aligned, offset
from hypergauge.core.config.settings import Settings
from hypergauge.core.files.run_folder import RunFolder
from hypergauge.core.services import Service, Stack

__all__ = ["EXPORTERS", "FILE", "SCRIPT", "Exposition", "RecordedRun", "Recording", "read", "record"]

FILE = Path(__file__).with_name("recordings") / "runs.jsonl.xz"
EXPORTERS = ("host", "process")
# Eight short runs and a long one have nearly the same number of samples.
SECONDS = (60,) * 8 + (600,)
SCRIPT = Path(__file__).parents[1] / "training" / "train.py"


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """Run, with its interval in Unix seconds and its planned duration."""

    run_id: str
    started_at: float
    ended_at: float
    seconds: int


@dataclass(frozen=True, slots=True)
class Exposition:
    """Response of an exporter at `time`, as a collector dates the scrape (Unix seconds)."""

    exporter: str
    time: float
    text: bytes


@dataclass(frozen=True, slots=True)
class Recording:
    """Runs, and all scrapes during them, by time."""

    runs: list[RecordedRun]
    expositions: list[Exposition]


def read(path: Path = FILE) -> Recording:
    """Read a recording."""
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        runs = [RecordedRun(**run) for run in json.loads(next(lines))]
        expositions = [Exposition(exporter, at, text.encode()) for exporter, at, text in map(json.loads, lines)]
    return Recording(runs, expositions)


def record(path: Path = FILE, seconds: tuple[int, ...] = SECONDS) -> Recording:
    """Run a training for each of `seconds`, one after the other, and write the exporters' responses to `path`."""
    with tempfile.TemporaryDirectory(prefix="bench-recording-") as folder:
        home = Path(folder) / "home"
        settings = Settings(home=home)
        sheet = Path(folder) / "experiments.csv"
        with sheet.open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["Experiment", "Workload", "File", "Params"])
            rows.writerows([1, 1 + number, SCRIPT, f"--seconds {wanted}"] for number, wanted in enumerate(seconds))
        environment = {name: value for name, value in os.environ.items() if not name.startswith("BENCH_")}
        schedule = subprocess.Popen(
            [sys.executable, "-m", "hypergauge.cli", "schedule", str(sheet)],
            env={**environment, "BENCH_HOME": str(home)},
            stdout=sys.stderr,
        )
        expositions: list[Exposition] = []
        ended = threading.Event()
        try:
            services = _exporters(Stack(settings), schedule)
            threads = [threading.Thread(target=_scrape, args=(service, expositions, ended)) for service in services]
            for thread in threads:
                thread.start()
            schedule.wait()
        finally:
            ended.set()
            schedule.terminate()
            schedule.wait()
        for thread in threads:
            thread.join()
        ends = sorted(
            ((one.run_id, end) for one in RunFolder.all(settings.runs_dir) if (end := one.end())),
            key=lambda pair: pair[1].started_at,
        )
        runs = [
            RecordedRun(run_id, end.started_at, end.ended_at, wanted)
            for (run_id, end), wanted in zip(ends, seconds, strict=True)
        ]
    recording = Recording(runs, sorted(expositions, key=lambda one: one.time))
    path.parent.mkdir(exist_ok=True)
    with lzma.open(path, "wt", encoding="utf-8", preset=9 | lzma.PRESET_EXTREME) as lines:
        for line in _lines(recording):
            lines.write(line + "\n")
    return recording


def _lines(recording: Recording) -> Iterator[str]:
    yield json.dumps([asdict(run) for run in recording.runs])
    # Sorted by exporter, so that repetitions are close together and compress better.
    for one in sorted(recording.expositions, key=lambda one: (one.exporter, one.time)):
        yield json.dumps([one.exporter, one.time, one.text.decode()])


def _exporters(stack: Stack, schedule: subprocess.Popen[bytes]) -> list[Service]:
    while True:
        services = stack.services()
        found = [services[f"exporter-{name}"] for name in EXPORTERS if f"exporter-{name}" in services]
        if len(found) == len(EXPORTERS) and all(service.answers() for service in found):
            return found
        if schedule.poll() is not None:
            raise RuntimeError("the schedule ended before its exporters answered")
        time.sleep(0.1)


def _scrape(service: Service, expositions: list[Exposition], ended: threading.Event) -> None:
    """Scrape once per second, at the collector's times and with its time stamps."""
    exporter = service.name.removeprefix("exporter-")
    target = Target(service.url, socket.gethostname(), exporter, "")
    address = urlsplit(service.url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=10)
    slot = int(time.time() - offset(target)) + 1
    while True:
        scheduled = slot + offset(target)
        if ended.wait(max(scheduled - time.time(), 0)):
            return
        at = aligned(scheduled, time.time(), 1.0)
        try:
            connection.request("GET", address.path, headers={"Accept": "text/plain;version=0.0.4"})
            expositions.append(Exposition(exporter, at, connection.getresponse().read()))
        except (OSError, http.client.HTTPException):
            connection.close()
        slot = max(slot + 1, int(time.time() - offset(target)) + 1)


if __name__ == "__main__":
    record()
