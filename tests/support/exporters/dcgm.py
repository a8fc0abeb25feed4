"""The exporter ``dcgm`` on synthetic samples or captured ``dcgmi`` output."""

# ruff: noqa: N802 - stubs have the names of NVML

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from hypergauge.exporters.dcgm import DcgmExporter
from hypergauge.exporters.serving.registry import ExporterOptions
from hypergauge.exporters.serving.text import render
from hypergauge.gpu.sampling.sample import Sample
from tests.support.waiting import HUNG_SECONDS

__all__ = [
    "DATA",
    "DCGMI",
    "FAKE",
    "GOLDEN",
    "Given",
    "NoNvml",
    "Played",
    "exposition",
    "lines",
    "make_exporter",
    "until",
    "values",
]  # fmt: skip

Played = Callable[..., tuple[DcgmExporter, Path]]

DATA = Path(__file__).parents[2] / "data"
GOLDEN = DATA / "golden"
DCGMI = DATA / "dcgmi"
FAKE = Path(__file__).parents[1] / "fakes" / "dcgmi.py"


class NoNvml:
    """NVML without a driver."""

    class NVMLError(Exception):
        """Error of NVML."""

    def nvmlInit(self) -> None:
        """Raise that the driver is missing."""
        raise self.NVMLError("Driver Not Loaded")


class Given:
    """Reader of synthetic samples in sequence; the last one stays."""

    def __init__(self, *samples: Sample, problem: str | None = None) -> None:
        self.samples = list(samples)
        self.reason = problem

    def __call__(self, nvml: object) -> Given:
        return self

    def problem(self) -> str | None:
        """Return the given problem."""
        return self.reason

    def read(self) -> Sample:
        """Return the next sample."""
        return self.samples.pop(0) if len(self.samples) > 1 else self.samples[0]

    def close(self) -> None:
        """Do nothing."""


def make_exporter(tmp_path: Path, reader: Given, **environment: str) -> DcgmExporter:
    """Return an exporter without dcgmi on a reader."""
    options = ExporterOptions(home=tmp_path)
    return DcgmExporter(options, environment={"PATH": ""} | environment, nvml=NoNvml(), reader=reader, hostname="n1")


def exposition(exporter: DcgmExporter) -> str:
    """Return the exporter's exposition."""
    return render(exporter.collect()).decode()


def until(exporter: DcgmExporter, expected: Callable[[str], bool]) -> str:
    """Return the first expected exposition."""
    deadline = time.monotonic() + HUNG_SECONDS
    while not expected(text := exposition(exporter)):
        assert time.monotonic() < deadline, text
        time.sleep(0.02)
    return text


def lines(text: str, metric: str) -> list[str]:
    """Return the lines of a metric."""
    return [line for line in text.splitlines() if line.startswith(f"{metric}{{")]


def values(text: str, metric: str) -> list[str]:
    """Return the values of a metric, as text."""
    return [line.rpartition(" ")[2] for line in lines(text, metric)]
