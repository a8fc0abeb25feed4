"""Samples as arrays and as PostgreSQL's binary COPY, without an object per sample."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Columns", "decoded", "encoded"]

_EPOCH_2000 = 946_684_800  # PostgreSQL's epoch: 2000-01-01
_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
_TRAILER = struct.pack(">h", -1)
_FIELDS = [
        ("fields", ">i2"),
        ("time_size", ">i4"), ("time", ">i8"),
        ("series_size", ">i4"), ("series_id", ">i4"),
        ("runset_size", ">i4"), ("runset_id", ">i4"),
        ("value_size", ">i4"), ("value", ">f8"),
        ("dt_size", ">i4"), ("dt", ">f4"),
]  # fmt: skip
_ROW = np.dtype(_FIELDS)
# A null has a size of -1 and no bytes, so rows with a null need their own layout.
_NULL_ROW = np.dtype([field for field in _FIELDS if field[0] != "value"])
_SIZES = {"fields": 5, "time_size": 8, "series_size": 4, "runset_size": 4, "value_size": 8, "dt_size": 4}
# Messages per join: enough to make joining cheap, few enough to need little memory.
_MESSAGES = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Samples in arrays of one shape ``(n,)``: Unix seconds, ids, values (NaN for null), seconds."""

    times: npt.NDArray[np.float64]
    series_ids: npt.NDArray[np.int32]
    runset_ids: npt.NDArray[np.int32]
    values: npt.NDArray[np.float64]
    dts: npt.NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.times)

    def where(self, which: npt.NDArray[np.bool_] | npt.NDArray[np.intp]) -> Columns:
        """Return some of the samples, by mask or by position."""
        return Columns(
            self.times[which], self.series_ids[which], self.runset_ids[which], self.values[which], self.dts[which]
        )


def encoded(columns: Columns) -> Iterator[bytes | memoryview]:
    """Yield the input of a binary COPY of ``time, series_id, runset_id, value, dt``."""
    missing = np.isnan(columns.values)
    yield _SIGNATURE
    if missing.any():
        yield _rows(_ROW, columns.where(~missing))
        yield _rows(_NULL_ROW, columns.where(missing))
    else:
        yield _rows(_ROW, columns)
    yield _TRAILER


def _rows(layout: np.dtype[np.void], columns: Columns) -> memoryview:
    rows = np.empty(len(columns), layout)
    for name, size in _SIZES.items():
        rows[name] = size
    rows["time"] = np.round((columns.times - _EPOCH_2000) * 1e6)
    rows["series_id"], rows["runset_id"], rows["dt"] = columns.series_ids, columns.runset_ids, columns.dts
    if layout is _ROW:
        rows["value"] = columns.values
    else:
        rows["value_size"] = -1
    return rows.view(np.uint8).data


def decoded(messages: Iterable[bytes | bytearray | memoryview], at_once: int) -> Iterator[Columns]:
    """Yield the output of a binary COPY of the same columns, in blocks of `at_once` samples; the last is shorter.

    The query must return NaN for a null value, so that all rows have one size.
    """
    waiting = bytearray()
    left = iter(messages)
    begun = False
    while block := b"".join(itertools.islice(left, _MESSAGES)):
        waiting += block
        if not begun:
            del waiting[: len(_SIGNATURE)]
            begun = True
        while len(waiting) >= at_once * _ROW.itemsize + len(_TRAILER):
            yield _columns(bytes(waiting[: at_once * _ROW.itemsize]))
            del waiting[: at_once * _ROW.itemsize]
    if rest := bytes(waiting[: -len(_TRAILER)]):
        yield _columns(rest)


def _columns(block: bytes) -> Columns:
    rows = np.frombuffer(block, _ROW)
    return Columns(
        rows["time"] / 1e6 + _EPOCH_2000,
        rows["series_id"].astype(np.int32),
        rows["runset_id"].astype(np.int32),
        rows["value"].astype(np.float64),
        rows["dt"].astype(np.float32),
    )
