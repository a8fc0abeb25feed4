"""Exporter for hypergauge: page faults and swapping, which reveal a data set larger than memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, Metric

from hypergauge.exporters.serving.registry import ExporterOptions

_PAGE = os.sysconf("SC_PAGE_SIZE")


class PagingExporter:
    """Exporter of ``/proc/vmstat``.

    Parameters
    ----------
    options
        Options of every exporter, unused here.
    path
        Path of the counters, which a test can replace.
    """

    name = "paging"

    def __init__(self, options: ExporterOptions, path: Path = Path("/proc/vmstat")) -> None:  # noqa: ARG002
        self._path = path

    def check(self) -> str | None:
        """Return the reason why the exporter cannot work on this host, ``None`` where it can."""
        return None if self._path.exists() else f"there is no {self._path}: only Linux has it"

    def collect(self) -> Iterator[Metric]:
        """Read the source once. It leaves out metrics that the source lacks; the server counts any exception."""
        counters = dict(line.split() for line in self._path.read_text().splitlines())
        faults = CounterMetricFamily(
            "paging_faults_total", "Page faults; a major one waits for a disk.", labels=["kind"]
        )
        if "pgfault" in counters and "pgmajfault" in counters:
            major = int(counters["pgmajfault"])
            faults.add_metric(["major"], major)
            faults.add_metric(["minor"], int(counters["pgfault"]) - major)
            yield faults
        swapped = CounterMetricFamily(
            "paging_swapped_bytes_total", "Memory moved to and from swap.", labels=["direction"]
        )
        if "pswpin" in counters and "pswpout" in counters:
            swapped.add_metric(["in"], int(counters["pswpin"]) * _PAGE)
            swapped.add_metric(["out"], int(counters["pswpout"]) * _PAGE)
            yield swapped
