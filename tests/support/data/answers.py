"""Answers of the database to a dashboard's queries, checked against the panel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg

from benchmarks.support.grafana import Query
from hypergauge.sql.server.database import Connection

# By PostgreSQL's type ids; other types would arrive as text, which panels cannot use.
TIMES, NUMBERS, TEXTS, FLAGS = {1184}, {20, 21, 23, 700, 701, 1700}, {25, 1043}, {16}


@dataclass(frozen=True, slots=True)
class Answer:
    """Rows, with names and types of their columns."""

    query: Query
    names: list[str]
    types: list[int]
    rows: list[tuple[Any, ...]]

    def column(self, name: str) -> list[Any]:
        """Return the values of a column."""
        return [row[self.names.index(name)] for row in self.rows]

    def has(self, types: set[int], name: str | None = None) -> bool:
        """Return whether a column has this type, and this name if given."""
        return any(code in types and name in (None, named) for named, code in zip(self.names, self.types, strict=True))


def run_query(connection: Connection, query: Query) -> Answer:
    """Run a query and check that its panel can draw the answer. It is prepared, so that a second statement is an error."""
    try:
        cursor = connection.execute(query.sql.encode(), prepare=True)
        rows = cursor.fetchall()
    except psycopg.Error as error:
        raise AssertionError(f"{query.where}: {error}\n{query.sql}") from error
    assert cursor.description is not None
    columns = cursor.description
    answer = Answer(query, [column.name for column in columns], [column.type_code for column in columns], rows)
    for fault in faults(answer):
        raise AssertionError(
            f"{query.where}: {fault}\n{dict(zip(answer.names, answer.types, strict=True))}\n{query.sql}"
        )
    return answer


def faults(answer: Answer) -> Iterator[str]:
    """Yield the reasons why a panel cannot draw an answer."""
    if len(set(answer.names)) < len(answer.names):
        yield "two columns have the same name"
    if strange := [code for code in answer.types if code not in TIMES | NUMBERS | TEXTS | FLAGS]:
        yield f"columns have types unknown to Grafana: {strange}"
    if answer.query.format == "time_series":
        yield from _curves(answer)
    else:
        yield from _KINDS.get(answer.query.kind, _anything)(answer)


def _curves(answer: Answer) -> Iterator[str]:
    if not answer.has(TIMES, "time"):
        yield "there is no column `time`"
        return
    moments = answer.column("time")
    if None in moments:
        yield "a time is null"
    elif moments != sorted(moments):
        yield "the rows are not in order of time"
    if not answer.has(NUMBERS):
        yield "no column is a number"


def _anything(answer: Answer) -> Iterator[str]:
    yield from ()


def _variable(answer: Answer) -> Iterator[str]:
    if answer.names != ["__value", "__text"] and len(answer.names) != 1:
        yield "it has neither __value and __text nor one column"
    if not all(code in TEXTS for code in answer.types):
        yield "the column is no text"
    values = [row[0] for row in answer.rows]
    if None in values or len(set(values)) < len(values):
        yield "a value is null or duplicate"


def _annotation(answer: Answer) -> Iterator[str]:
    if not answer.has(TIMES, "time") or None in answer.column("time"):
        yield "time is no time, or null somewhere"
    if "timeend" in answer.names and not answer.has(TIMES, "timeend"):
        yield "timeend is no time"  # null marks a point in time
    if not answer.has(TEXTS, "text"):
        yield "no column is text"


def _table(answer: Answer) -> Iterator[str]:
    """Yield the faults of curves in a table, which the panel splits by columns of text."""
    if not answer.has(TIMES, "time") or not answer.has(NUMBERS):
        yield f"a {answer.query.kind} is drawn from a table without a time or a number"
        return
    split = {
        name
        for one in answer.query.panel.get("transformations", [])
        if one["id"] == "partitionByValues"
        for name in one["options"]["fields"]
    }
    texts = [name for name, code in zip(answer.names, answer.types, strict=True) if code in TEXTS]
    if set(texts) - split:
        yield f"a {answer.query.kind} is drawn from a table that is not split by {texts}"
    curves: dict[tuple[Any, ...], list[Any]] = {}
    for row, moment in zip(answer.rows, answer.column("time"), strict=True):
        curves.setdefault(tuple(row[answer.names.index(name)] for name in texts), []).append(moment)
    if any(moments != sorted(moments) for moments in curves.values()):
        yield "the rows of a curve are not in order of time"


def _value(answer: Answer) -> Iterator[str]:
    if not answer.has(NUMBERS) and not answer.has(TEXTS):
        yield "there is no row"
    if (
        len(answer.rows) > 1
        and not answer.query.panel["options"]["reduceOptions"].get("values")
        and not answer.has(TIMES)
    ):
        yield "there is more than one row"


def _bars(answer: Answer) -> Iterator[str]:
    if not answer.has(NUMBERS):
        yield "no column is a number"
    elif answer.types[0] not in TEXTS | TIMES and not answer.query.panel["options"].get("xField"):
        yield "the first column does not name the bars"


def _points(answer: Answer) -> Iterator[str]:
    if sum(code in NUMBERS for code in answer.types) < 2:
        yield "there are fewer than two numbers"


def _states(answer: Answer) -> Iterator[str]:
    if not answer.has(TIMES) or len(answer.names) < 2:
        yield "there is no time, or no other column"


_KINDS: dict[str, Callable[[Answer], Iterator[str]]] = {
    "variable": _variable,
    "annotation": _annotation,
    "timeseries": _table,
    "heatmap": _table,
    "stat": _value,
    "gauge": _value,
    "bargauge": _value,
    "barchart": _bars,
    "trend": _points,
    "xychart": _points,
    "state-timeline": _states,
    "status-history": _states,
}
