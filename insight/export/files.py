"""Parquet and CSV files, written table by table."""

from __future__ import annotations

import contextlib
import gzip
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow

__all__ = ["FORMS", "table_writer"]

# Supported suffixes of file names.
FORMS = (".parquet", ".csv", ".csv.gz")

_Write = Callable[["pyarrow.Table"], None]


@contextlib.contextmanager
def table_writer(path: Path, name: str) -> Iterator[_Write]:
    """Open `path` for writing in the format of the suffix of `name`."""
    with _parquet(path) if name.endswith(".parquet") else _csv(path, packed=name.endswith(".gz")) as write:
        yield write


@contextlib.contextmanager
def _parquet(path: Path) -> Iterator[_Write]:
    from pyarrow import parquet

    with contextlib.ExitStack() as stack:
        opened: list[Any] = []

        def write(table: pyarrow.Table) -> None:
            if not opened:
                opened.append(stack.enter_context(parquet.ParquetWriter(path, table.schema, compression="zstd")))
            opened[0].write_table(table)

        yield write


@contextlib.contextmanager
def _csv(path: Path, *, packed: bool) -> Iterator[_Write]:
    from pyarrow import csv

    with gzip.open(path, "wb", compresslevel=1) if packed else path.open("wb") as file:
        first = True

        def write(table: pyarrow.Table) -> None:
            nonlocal first
            csv.write_csv(table, file, csv.WriteOptions(include_header=first))
            first = False

        yield write
