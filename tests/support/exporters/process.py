"""Exposition of the exporter ``process``, and folders and ends of runs for it."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from prometheus_client import generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from hypergauge.core.files.run_folder import RunEnd, RunFolder
from hypergauge.exporters.process.exporter import ProcessExporter

__all__ = ["BURN", "END", "FINAL", "TOTALS", "Page", "Start", "StartRun", "folder", "watch"]

BURN = """
import os, resource, sys, time
def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end: pass
def used():
    both = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return sum(usage.ru_utime + usage.ru_stime for usage in both)
def say(word): print(word, flush=True)
"""

END = RunEnd(
    status="finished",
    started_at=1.0,
    ended_at=2.0,
    exit_code=0,
    reason=None,
    cpu_seconds=12.5,
    read_bytes=4096,
    written_bytes=8192,
    max_rss_bytes=10_000_000_000,
)

TOTALS = {"cpu_seconds_total", "read_bytes_total", "written_bytes_total"}
FINAL = TOTALS | {"start_time_seconds", "end_time_seconds", "peak_memory_bytes"}

Start = Callable[..., subprocess.Popen[bytes]]
# Start of an idle process of a run; returns its pid.
StartRun = Callable[[str], int]


class Page(Collector):
    """The exporter's exposition, parsed again."""

    def __init__(self, exporter: ProcessExporter) -> None:
        self.exporter = exporter

    def collect(self) -> Iterable[Metric]:
        return self.exporter.collect()

    def read(self, run_id: str) -> tuple[dict[str, float], set[float | None]]:
        """Return the run's values by name without ``bench_process_``, and their timestamps."""
        found, timestamps = {}, set()
        for family in text_string_to_metric_families(generate_latest(self).decode()):
            for sample in family.samples:
                if sample.labels == {"run_id": run_id}:
                    found[sample.name.removeprefix("bench_process_")] = sample.value
                    timestamps.add(None if sample.timestamp is None else float(sample.timestamp))
        return found, timestamps

    def by_tree(self) -> float:
        (value,) = (
            sample.value
            for family in self.collect()
            for sample in family.samples
            if family.name == "bench_process_attributed_by_tree"
        )
        return value


def folder(tmp_path: Path, run_id: str) -> RunFolder:
    run_folder = RunFolder(tmp_path / "runs" / run_id)
    run_folder.create({})
    return run_folder


def watch(page: Page, run_id: str, process: subprocess.Popen[bytes]) -> list[dict[str, float]]:
    """Read until `process` prints a line; return all reads."""
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    samples = []
    while not (line := process.stdout.readline()):
        samples.append(page.read(run_id)[0])
        time.sleep(0.03)
    os.set_blocking(process.stdout.fileno(), True)
    samples.append(page.read(run_id)[0] | {"own": float(line)})
    return [sample for sample in samples if "cpu_seconds_total" in sample]
