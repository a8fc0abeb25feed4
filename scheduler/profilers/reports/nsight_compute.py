"""Nsight Compute's page ``raw`` as CSV: a row for each launch of a kernel, below a row of units."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator

from hypergauge.scheduler.profilers.reports.stacks import Recording, Stack, UnreadableReport

__all__ = ["read_raw_page"]

_NAME, _DURATION = "Kernel Name", "gpu__time_duration.sum"
_UNITS = {
    "ns": 1e-9,
    "nsecond": 1e-9,
    "us": 1e-6,
    "usecond": 1e-6,
    "ms": 1e-3,
    "msecond": 1e-3,
    "s": 1.0,
    "second": 1.0,
}


def read_raw_page(lines: Iterable[str]) -> Recording:
    """Return the time of each kernel.

    Raises
    ------
    UnreadableReport
        The page has no duration of kernels, as where the user's options leave it out.
    """
    rows = csv.reader(_from_header(lines))
    header, units = next(rows, []), next(rows, [])
    if _DURATION not in header or len(units) != len(header):
        raise UnreadableReport(f"it has no {_DURATION} of kernels")
    name, duration = header.index(_NAME), header.index(_DURATION)
    if (unit := _UNITS.get(units[duration])) is None:
        raise UnreadableReport(f"its {_DURATION} has the unknown unit {units[duration]!r}")
    kernels: dict[str, tuple[int, float]] = {}
    for row in rows:
        if len(row) > duration and row[duration]:
            calls, seconds = kernels.get(row[name], (0, 0.0))
            # Thousands are separated by commas.
            kernels[row[name]] = calls + 1, seconds + float(row[duration].replace(",", "")) * unit
    return Recording([Stack("kernel", (kernel,), "", calls, seconds) for kernel, (calls, seconds) in kernels.items()])


def _from_header(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines from the header on; messages of the program may stand above."""
    rest = iter(lines)
    for line in rest:
        if line.startswith('"ID",'):
            yield line
            yield from rest
