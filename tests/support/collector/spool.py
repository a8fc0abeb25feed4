"""Spools for tests: records, and comparison."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from hypergauge.collector.spool.queue import Spool
from hypergauge.collector.spool.records import SeriesDefinition, SpoolRecord

__all__ = ["SERIES", "OpenSpool", "drain", "record", "same", "segments"]

OpenSpool = Callable[..., Spool]

SERIES = {
    ref: SeriesDefinition(7, f"metric_{ref}", "gauge", {"gpu": str(ref), "name": 'ä"\\\n'}) for ref in range(2000)
}


def record(number: int, samples: int = 3, first_ref: int = 0) -> SpoolRecord:
    """Return a record whose values depend on `number`."""
    return SpoolRecord(
        times=1_700_000_000.125 + number + np.zeros(samples),
        refs=np.arange(first_ref, first_ref + samples, dtype=np.uint32),
        values=np.array([np.nan, *range(1, samples)]) * number,
        dts=np.full(samples, 0.1, np.float32),
        series=SERIES,
    )


def same(taken: SpoolRecord | None, number: int, samples: int = 3, first_ref: int = 0) -> bool:
    """Return whether `taken` equals the record of these parameters, with its definitions."""
    wanted = record(number, samples, first_ref)
    return (
        taken is not None
        and all(
            getattr(taken, name).dtype == getattr(wanted, name).dtype
            and np.array_equal(getattr(taken, name), getattr(wanted, name), equal_nan=name == "values")
            for name in ("times", "refs", "values", "dts")
        )
        and all(taken.series[ref] == SERIES[ref] for ref in wanted.refs.tolist())
    )


def drain(spool: Spool) -> list[SpoolRecord]:
    """Take all records."""
    return list(iter(spool.take, None))


def segments(folder: Path) -> list[Path]:
    """Return the segment files of a spool, in order."""
    return sorted(folder.glob("*.spool"))
