"""Members of an archive: rows of a table in COPY's text format."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence

from psycopg import sql

from hypergauge.sql.server.database import Connection, StatementFailed
from hypergauge.sql.transfer.archive import Table, blocks
from hypergauge.sql.transfer.copying import row_blocks

__all__ = ["copy_in", "copy_out", "selected"]


def selected(schema: str, name: str, columns: Sequence[str]) -> sql.Composed:
    """Return the query that reads some columns of a table."""
    return sql.SQL("select {} from {}").format(
        sql.SQL(", ").join(map(sql.Identifier, columns)), sql.Identifier(schema, name)
    )


def copy_out(connection: Connection, archive: zipfile.ZipFile, table: Table, query: sql.Composable) -> Table:
    """Write the member of `table`, and return `table` with its number of rows."""
    cursor = connection.cursor()
    with (
        archive.open(table.member, "w", force_zip64=True) as member,
        cursor.copy(sql.SQL("copy ({}) to stdout").format(query)) as copy,
    ):
        for block in row_blocks(copy):
            member.write(block)
    return Table(table.schema, table.name, table.columns, cursor.rowcount)


def copy_in(connection: Connection, archive: zipfile.ZipFile, table: Table, target: Table) -> None:
    """Read the member of `table` into `target`, which has the same columns, possibly renamed.

    Raises
    ------
    StatementFailed
        The number of rows differs from that of `table`.
    """
    statement = sql.SQL("copy {} ({}) from stdin").format(
        sql.Identifier(target.schema, target.name), sql.SQL(", ").join(map(sql.Identifier, target.columns))
    )
    cursor = connection.cursor()
    with cursor.copy(statement) as copy:
        for block in blocks(archive, table.member):
            copy.write(block)
    if cursor.rowcount != table.rows:
        raise StatementFailed(f"{table.member} has {cursor.rowcount} rows, its manifest has {table.rows}")
