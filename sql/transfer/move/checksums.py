"""Checksums of rows, equal in every flavour and independent of the order of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import sql

from hypergauge.sql.server.database import Connection

__all__ = ["Checksum", "samples_checksum", "table_checksum"]


@dataclass(frozen=True, slots=True)
class Checksum:
    """Number of rows, and the sum of a 64-bit hash of each row.

    PostgreSQL keeps these hashes from version to version, because rows of partitioned tables are where they say.
    """

    rows: int
    total: int


def table_checksum(connection: Connection, query: sql.Composable, columns: Sequence[str]) -> Checksum:
    """Return the checksum of a query's rows as text, in the session's formats."""
    row = sql.SQL("row({})::text").format(sql.SQL(", ").join(map(sql.Identifier, columns)))
    return _checksum(connection, sql.SQL("hashtextextended({}, 0)").format(row), sql.SQL("({}) x").format(query))


def samples_checksum(connection: Connection, query: sql.Composable) -> Checksum:
    """Return the checksum of samples. Hashes of their values are twice as fast as hashes of text."""
    row = sql.SQL("hash_record_extended(row(time, series_id, runset_id, value, dt), 0)")
    return _checksum(connection, row, sql.SQL("({}) x").format(query))


def _checksum(connection: Connection, hashed: sql.Composable, rows: sql.Composable) -> Checksum:
    query = sql.SQL("select count(*), coalesce(sum({}), 0) from {}").format(hashed, rows)
    found = connection.execute(query).fetchone()
    assert found is not None
    return Checksum(found[0], int(found[1]))
