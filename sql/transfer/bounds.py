"""Bounds of a capsule's values, within which PostgreSQL computes with them and Python reads them.

One value outside would stop every list, comparison and report that meets it. The local write path has the same bounds,
see `hypergauge.sql.ingest.limits`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from psycopg import sql

from hypergauge.core.errors import BadRequest
from hypergauge.sql.ingest.limits import EARLIEST, LATEST
from hypergauge.sql.server.database import Connection
from hypergauge.sql.transfer.archive import Table

__all__ = ["refuse_unbounded"]

# Squares of these are doubles. Totals over time lie above the largest stored value, 1e150.
_LARGEST = 1e154
# Numbers of experiments, rows and attempts are continued by one.
_LARGEST_NUMBER = 1_000_000_000
_LARGEST_SCALE = 1e30
_DEEPEST = 100
_MOST_DIGITS = 150
_SHOWN = 60

_TIME = f"{{c}} >= to_timestamp({EARLIEST:.0f}) and {{c}} < to_timestamp({LATEST:.0f})"
_NUMBER = f"abs({{c}}) <= {_LARGEST}::float8"
_NUMBERS = f"{_LARGEST}::float8 >= all({{c}}) and -{_LARGEST}::float8 <= all({{c}})"
# Condition by type. A null satisfies each.
_BY_TYPE = {
    "timestamp with time zone": _TIME,
    "double precision": _NUMBER,
    "real": _NUMBER,
    "double precision[]": _NUMBERS,
    "real[]": _NUMBERS,
    "jsonb": "jsonb_typeof({c}) = 'object'",
}
_FROM_0 = "{{c}} >= 0 and {{c}} <= {most}"
_COUNTS = ("experiment_id", "workload", "position", "attempt", "others")
_AMOUNTS = ("n", "calls", "seconds", "seen", "elapsed_seconds", "cpu_seconds", "max_rss_bytes")
_INTERVALS = """jsonb_typeof({c}) = 'object' and not jsonb_path_exists({c}, '$.* ? (
    @.type() != "null" && (@.type() != "number" || !(@ > 0 && @ <= 1000000000)))')"""
# Condition by name, in place of that of the type.
_BY_NAME = {
    **dict.fromkeys(_COUNTS, _FROM_0.format(most=_LARGEST_NUMBER)),
    **dict.fromkeys(_AMOUNTS, _FROM_0.format(most=f"{_LARGEST}::float8")),
    "scale": f"abs({{c}}) <= {_LARGEST_SCALE}",
    "intervals": _INTERVALS,
    "exporters": _INTERVALS,
}
# A clock that was set back during a span leaves one that ends before its start; each reader allows for it.
_MAY_END_BEFORE = "spans"


def refuse_unbounded(connection: Connection, table: Table) -> None:
    """Check the rows of a staging table, as they were copied.

    Raises
    ------
    BadRequest
        A value is out of bounds, or an interval ends before its start. The message names table, row and column.
    """
    columns: dict[str, str] = dict(
        connection.execute(
            """
            select attname::text, format_type(atttypid, null) from pg_attribute
            where attrelid = %s::regclass and attnum > 0 and not attisdropped order by attnum
            """,
            (f"{table.schema}.{table.name}",),
        ).fetchall()
    )
    bounds = {name: bound for name, kind in columns.items() if (bound := _BY_NAME.get(name) or _BY_TYPE.get(kind))}
    conditions: list[sql.Composable] = [
        sql.SQL("({name}, {shown}::text, ({bound}) is not false)").format(
            name=sql.Literal(name), shown=sql.Identifier(name),
            bound=sql.SQL(bound.format(c="{c}")).format(c=sql.Identifier(name)),
        )
        for name, bound in bounds.items()
    ]  # fmt: skip
    if {"started_at", "ended_at"} <= columns.keys() and table.name != _MAY_END_BEFORE:
        conditions.append(sql.SQL("('ended_at', ended_at::text, (ended_at >= started_at) is not false)"))
    if not conditions:
        return
    found = connection.execute(
        sql.SQL(
            """
            select t.ctid::text, c.name, c.shown from {table} t cross join lateral (values {conditions}) c (name, shown, is_within)
            where not c.is_within order by t.ctid limit 1
            """
        ).format(table=sql.Identifier(table.schema, table.name), conditions=sql.SQL(", ").join(conditions))
    ).fetchone()
    if found is not None:
        _refuse(connection, table, *found)
    for name, kind in columns.items():
        if kind == "jsonb":
            for row, text in _suspicious(connection, table, name):
                if not _is_readable(text):
                    _refuse(connection, table, row, name, text)


def _suspicious(connection: Connection, table: Table, name: str) -> Iterator[tuple[str, str]]:
    """Yield the rows whose JSON may be nested too deeply or may have too long a number."""
    query = sql.SQL(
        """
        select ctid::text, {c}::text from {table}
        where length({c}::text) - length(translate({c}::text, '[{{', '')) > {deepest} or {c}::text ~ {digits} order by ctid
        """
    ).format(
        c=sql.Identifier(name), table=sql.Identifier(table.schema, table.name), deepest=sql.Literal(_DEEPEST),
        digits=sql.Literal(f"[0-9]{{{_MOST_DIGITS}}}"),
    )  # fmt: skip
    yield from connection.execute(query).fetchall()


def _is_readable(text: str) -> bool:
    try:
        level = [json.loads(text, parse_int=_integer)]
    except (ValueError, RecursionError):
        return False
    for _ in range(_DEEPEST):
        inner = [one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list)]
        level = [value for values in inner for value in values]
        if not level:
            return True
    return False


def _integer(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError("too many digits")
    return int(digits)


def _refuse(connection: Connection, table: Table, position: str, column: str, shown: str) -> None:
    row = connection.execute(
        sql.SQL("select count(*) from {} where ctid <= %s::tid").format(sql.Identifier(table.schema, table.name)),
        (position,),
    ).fetchone()
    assert row is not None
    text = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"
    raise BadRequest(f"{table.name}, row {row[0]}: {column} is out of bounds: {text}")
