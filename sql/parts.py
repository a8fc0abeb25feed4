"""A part of a capsule's samples: a Parquet file, which compresses them well and which other programs read as it is."""

from __future__ import annotations

import numpy as np

from sql.columns import Columns

__all__ = ["packed", "unpacked"]


def packed(columns: Columns) -> bytes:
    """Return a part with `columns`, times in microseconds and nulls as nulls: exactly what the database has."""
    import pyarrow as pa  # half a second that only this needs
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


def unpacked(part: bytes) -> Columns:
    """Return the columns of a part.

    Raises
    ------
    KeyError, ValueError, OSError
        It is none.
    """
    import pyarrow as pa
    from pyarrow import parquet

    table = parquet.read_table(pa.BufferReader(part))
    read = {name: table.column(name) for name in ("time", "series_id", "runset_id", "value", "dt")}
    return Columns(
        read["time"].cast(pa.int64()).to_numpy() / 1e6,
        read["series_id"].to_numpy().astype(np.int32),
        read["runset_id"].to_numpy().astype(np.int32),
        read["value"].to_numpy().astype(np.float64),
        read["dt"].to_numpy().astype(np.float32),
    )
