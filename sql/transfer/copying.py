"""COPY of rows out of a database, in blocks of some thousand rows."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from psycopg import sql

from hypergauge.sql.server.database import Connection

__all__ = ["copy_between", "row_blocks"]

_ROWS_AT_ONCE = 5000


def row_blocks(rows: Iterable[bytes | bytearray | memoryview]) -> Iterator[bytes]:
    """Yield the rows of a COPY, joined to blocks."""
    left = iter(rows)
    while block := b"".join(itertools.islice(left, _ROWS_AT_ONCE)):
        yield block


def copy_between(source: Connection, reading: sql.Composed, target: Connection, writing: sql.Composed) -> None:
    """Copy rows from one database to another, by COPY statements of the same format."""
    with target.cursor().copy(writing) as into, source.cursor().copy(reading) as out:
        for block in row_blocks(out):
            into.write(block)
