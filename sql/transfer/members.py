"""Members of an archive: rows of a table in COPY's text format."""

from __future__ import annotations

import contextlib
import zipfile
from collections.abc import Iterator, Sequence

import psycopg
from psycopg import errors, sql

from hypergauge.core.errors import BadRequest
from hypergauge.sql.server.database import Connection
from hypergauge.sql.transfer.archive import BadBackup, Table, blocks
from hypergauge.sql.transfer.copying import row_blocks

__all__ = ["copy_in", "copy_out", "refusals", "selected"]

# Classes of the database's errors about content: cardinality, data, constraints, names, features, and limits. The session
# would retry some of them, as those of a lost connection.
_OF_CONTENT = ("0A", "21", "22", "23", "3F", "42", "54")


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
    BadRequest
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
        raise BadRequest(f"{table.member} has {cursor.rowcount} rows, its manifest has {table.rows}")


@contextlib.contextmanager
def refusals(archive: zipfile.ZipFile) -> Iterator[None]:
    """Name the file in each refusal of its content, by us or by the database.

    Raises
    ------
    BadRequest
        The content is refused. The message names the row and the column where the database does.
    """
    try:
        yield
    except errors.InsufficientPrivilege:
        raise
    except psycopg.Error as error:
        if not (error.sqlstate or "").startswith(_OF_CONTENT):
            raise
        lines = (error.diag.context or "").splitlines()
        where = next((line for line in lines if line.startswith("COPY ")), "")[:200]
        message = f"{error.diag.message_primary} ({where})" if where else str(error.diag.message_primary)
        raise BadBackup(message, file=archive.filename) from error
    except BadRequest as error:
        if error.file is not None:
            raise
        raise BadRequest(str(error), file=archive.filename) from None
