"""Samples of a capsule as Parquet files, which other programs can read."""

from __future__ import annotations

import numpy as np

from hypergauge.sql.ingest.columns import Columns
from hypergauge.sql.ingest.limits import EARLIEST, LATEST

__all__ = ["packed", "unpacked"]

# Four times the samples of an exported part; the size in bytes is about twice that of the arrays.
_MOST = 1_000_000
_MOST_BYTES = 64 << 20
# Three centuries: the aggregates add intervals up.
_LONGEST_SECONDS = 1e10
# Errors of Arrow, which are of all these kinds.
_UNREADABLE = (ValueError, OSError, TypeError, KeyError, NotImplementedError, MemoryError, RuntimeError)
_TYPES = {
    "time": "timestamp[us, tz=UTC]",
    "series_id": "int32",
    "runset_id": "int32",
    "value": "double",
    "dt": "float",
}


def packed(columns: Columns) -> bytes:
    """Return a part with `columns`. Times in microseconds and nulls are exactly those of the database."""
    import pyarrow as pa  # imported here: it takes half a second
    from pyarrow import parquet

    table = pa.table(
        {
            "time": pa.array(np.round(columns.times * 1e6).astype(np.int64), pa.timestamp("us", tz="UTC")),
            "series_id": columns.series_ids,
            "runset_id": columns.runset_ids,
            "value": pa.array(columns.values, from_pandas=True),  # NaN is null
            "dt": columns.dts,
        }
    )
    sink = pa.BufferOutputStream()
    parquet.write_table(
        table, sink, compression="zstd", use_dictionary=["series_id", "runset_id", "value", "dt"],
        column_encoding={"time": "DELTA_BINARY_PACKED"},
    )  # fmt: skip
    return bytes(sink.getvalue())


def unpacked(part: bytes, count: int) -> Columns:
    """Return the columns of a part with `count` samples. The size is checked before unpacking.

    Raises
    ------
    ValueError
        The part is invalid, has not exactly `count` samples, or exceeds a limit. The message continues the part's name.
    """
    import pyarrow as pa
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(pa.BufferReader(part))
        rows, types = file.metadata.num_rows, {field.name: str(field.type) for field in file.schema_arrow}
    except _UNREADABLE as error:
        raise ValueError(f"cannot be read: {_first_line(error)}") from error
    if rows != count:
        raise ValueError(f"has {rows} samples, its manifest has {count}")
    if rows > _MOST:
        raise ValueError(f"has {rows} samples, and a part has {_MOST} at most")
    for name, kind in _TYPES.items():
        if types.get(name) != kind:
            raise ValueError(f"has no samples in it: {name} is {types.get(name, 'not there')}")
    groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    if (size := sum(group.total_byte_size for group in groups)) > _MOST_BYTES:
        raise ValueError(f"would take {size} bytes, and a part takes {_MOST_BYTES} at most")
    try:
        read = file.read(list(_TYPES))
    except _UNREADABLE as error:
        raise ValueError(f"cannot be read: {_first_line(error)}") from error
    for name in _TYPES:
        if name != "value" and read[name].null_count:
            raise ValueError(f"has a sample without {name}")
    columns = Columns(
        read["time"].cast(pa.int64()).to_numpy() / 1e6,
        read["series_id"].to_numpy().astype(np.int32),
        read["runset_id"].to_numpy().astype(np.int32),
        read["value"].to_numpy().astype(np.float64),
        read["dt"].to_numpy().astype(np.float32),
    )
    _refuse_unbounded(columns)
    return columns


def _refuse_unbounded(columns: Columns) -> None:
    """Check times and intervals; values are limited as they are written."""
    for name, values, most, least in (
        ("time", columns.times, LATEST, EARLIEST),
        ("dt", columns.dts, _LONGEST_SECONDS, 0.0),
    ):
        outside = ~((values >= least) & (values < most))  # NaN too
        if outside.any():
            row = int(np.argmax(outside))
            raise ValueError(f"row {row + 1}: {name} is out of bounds: {values[row]}")


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]
