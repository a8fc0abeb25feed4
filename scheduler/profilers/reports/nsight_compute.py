"""Nsight Compute's page ``raw`` as CSV: a row for each launch of a kernel, below a row of units."""

from __future__ import annotations

import csv
import math
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
    rows = _rows(_from_header(lines))
    header, units = next(rows, None) or [], next(rows, None) or []
    if not {_NAME, _DURATION} <= set(header) or _DURATION not in header or len(units) != len(header):
        raise UnreadableReport(f"it has no {_DURATION} of kernels")
    name, duration = header.index(_NAME), header.index(_DURATION)
    if (unit := _UNITS.get(units[duration])) is None:
        raise UnreadableReport(f"its {_DURATION} has the unknown unit {units[duration]!r}")
    kernels: dict[str, tuple[int, float]] = {}
    skipped = 0
    for row in rows:
        if row is None or len(row) <= max(name, duration) or (value := _number(row[duration])) is None:
            skipped += row != []
            continue
        calls, seconds = kernels.get(row[name], (0, 0.0))
        kernels[row[name]] = calls + 1, seconds + value * unit
    stacks = [Stack("kernel", (kernel,), "", calls, seconds) for kernel, (calls, seconds) in kernels.items()]
    return Recording(stacks, skipped=skipped)


def _rows(lines: Iterable[str]) -> Iterator[list[str] | None]:
    """Yield the rows of a page, ``None`` for one that `csv` refuses, as for a name beyond its limit."""
    rows = csv.reader(lines)
    while True:
        try:
            yield next(rows)
        except StopIteration:
            return
        except csv.Error:
            yield None


def _number(text: str) -> float | None:
    """Return a duration; ``None`` for a text such as ``n/a``. Thousands are separated by commas."""
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _from_header(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines from the header on; messages of the program may stand above."""
    rest = iter(lines)
    for line in rest:
        if line.startswith('"ID",'):
            yield line
            yield from rest
