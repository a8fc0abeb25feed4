"""Snapshot of the database for long reads."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Literal

import psycopg
from psycopg import sql

from hypergauge.sql.schema.flavour import Flavour, inspect
from hypergauge.sql.server.database import Connection

__all__ = ["snapshot"]

_ATTEMPTS = 5


@contextlib.contextmanager
def snapshot(
    connection: Connection, lock: Literal["access share", "share update exclusive"] = "access share"
) -> Iterator[str]:
    """Read a consistent snapshot within the context, and yield the snapshot's name.

    TimescaleDB's compression empties a chunk even for older snapshots, as ``truncate`` does. So the chunks are locked
    before the snapshot is taken. Neither lock blocks writers of samples.

    Parameters
    ----------
    lock
        Any reader may take ``access share``, on a replica too; a running compression then waits for the lock's end.
        ``share update exclusive`` keeps compressions from starting.
    """
    _begin(connection, lock)
    try:
        # Portable text formats, and floating-point values with full precision.
        connection.execute(
            """
            set local timezone = 'UTC'; set local datestyle = 'ISO, YMD'; set local intervalstyle = 'postgres';
            set local extra_float_digits = 1; set local bytea_output = 'hex'; set local statement_timeout = 0;
            set local idle_in_transaction_session_timeout = 0
            """
        )
        row = connection.execute("select pg_export_snapshot()").fetchone()
        assert row is not None
        yield str(row[0])
    finally:
        if not connection.closed:
            connection.execute("rollback")


def _begin(connection: Connection, lock: str) -> None:
    for attempt in range(_ATTEMPTS):
        chunks: list[tuple[str, str]] = []
        if inspect(connection).flavour is Flavour.TIMESCALEDB:
            chunks = connection.execute(
                """
                select n.nspname, c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
                join pg_namespace n on n.oid = c.relnamespace where i.inhparent = 'bench.samples'::regclass
                  and has_table_privilege('bench.samples', 'select')
                union all  -- who sees own runs alone may not: what a view is made of is held with it
                select 'bench_own', 'samples' where not has_table_privilege('bench.samples', 'select')
                order by 1, 2
                """
            ).fetchall()
        connection.execute("begin isolation level repeatable read, read only")
        try:
            for chunk in chunks:
                connection.execute(sql.SQL("lock table {} in {} mode").format(sql.Identifier(*chunk), sql.SQL(lock)))
        except psycopg.errors.UndefinedTable:  # a chunk was dropped after the query
            connection.execute("rollback")
            if attempt + 1 == _ATTEMPTS:
                raise
        else:
            break
