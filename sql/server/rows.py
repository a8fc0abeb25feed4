"""Typed results of statements."""

from __future__ import annotations

from typing import Any, TypeVar

from psycopg import Connection
from psycopg.abc import Params
from psycopg.rows import class_row
from psycopg.sql import SQL, Composed

__all__ = ["column", "first_record", "first_value", "records", "value"]

T = TypeVar("T")
Statement = str | SQL | Composed


def records(connection: Connection, kind: type[T], statement: Statement, values: Params = ()) -> list[T]:
    """Return each row as an object of `kind`, with the columns as fields."""
    with connection.cursor(row_factory=class_row(kind)) as cursor:
        return cursor.execute(statement, values).fetchall()


def first_record(connection: Connection, kind: type[T], statement: Statement, values: Params = ()) -> T | None:
    """Return the first row as an object of `kind`, or ``None`` for an empty result."""
    with connection.cursor(row_factory=class_row(kind)) as cursor:
        return cursor.execute(statement, values).fetchone()


def column(connection: Connection, statement: Statement, values: Params = ()) -> list[Any]:
    """Return the first column of all rows."""
    return [row[0] for row in connection.execute(statement, values).fetchall()]


def value(connection: Connection, kind: type[T], statement: Statement, values: Params = ()) -> T:
    """Return the first column of the first row, a `kind`."""
    found = first_value(connection, kind, statement, values)
    assert found is not None, statement
    return found


def first_value(connection: Connection, kind: type[T], statement: Statement, values: Params = ()) -> T | None:
    """Return the first column of the first row, a `kind` or ``None``. Return ``None`` for an empty result."""
    row = connection.execute(statement, values).fetchone()
    assert row is None or row[0] is None or isinstance(row[0], kind), statement
    return None if row is None else row[0]
