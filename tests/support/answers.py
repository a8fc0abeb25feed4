"""Answers of the database to a dashboard's queries, checked against the panel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg

from benchmarks.grafana import Query
from hypergauge.sql.server.database import Connection

# By PostgreSQL's own numbers; all else would come as text that no panel can use.
TIMES, NUMBERS, TEXTS, FLAGS = {1184}, {20, 21, 23, 700, 701, 1700}, {25, 1043}, {16}


@dataclass(frozen=True, slots=True)
class Answer:
    """Rows, with the names and types of their columns in order."""

    query: Query
    names: list[str]
    types: list[int]
    rows: list[tuple[Any, ...]]

    def column(self, name: str) -> list[Any]:
        """Return the values of a column."""
        return [row[self.names.index(name)] for row in self.rows]

    def has(self, types: set[int], name: str | None = None) -> bool:
        """Return whether there is a column of such a type, of that name if one is given."""
        return any(code in types and name in (None, named) for named, code in zip(self.names, self.types, strict=True))


def ask(connection: Connection, query: Query) -> Answer:
    """Ask a query and see that its panel can draw the answer. It is prepared, so that a second statement is an error."""
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
    """Yield why a panel cannot draw an answer."""
    if len(set(answer.names)) < len(answer.names):
        yield "two columns have the same name"
    if strange := [code for code in answer.types if code not in TIMES | NUMBERS | TEXTS | FLAGS]:
        yield f"columns are of types that Grafana does not know: {strange}"
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
        yield "the rows are not in the order of their times"
    if not answer.has(NUMBERS):
        yield "there is no number"


def _anything(answer: Answer) -> Iterator[str]:
    yield from ()


def _variable(answer: Answer) -> Iterator[str]:
    if answer.names != ["__value", "__text"] and len(answer.names) != 1:
        yield "it has neither __value and __text nor one column"
    if not all(code in TEXTS for code in answer.types):
        yield "it is no text"
    values = [row[0] for row in answer.rows]
    if None in values or len(set(values)) < len(values):
        yield "a value is null or there twice"


def _annotation(answer: Answer) -> Iterator[str]:
    if not answer.has(TIMES, "time") or None in answer.column("time"):
        yield "time is no time, or null somewhere"
    if "timeend" in answer.names and not answer.has(TIMES, "timeend"):
        yield "timeend is no time"  # where it is null, a moment is marked
    if not answer.has(TEXTS, "text"):
        yield "there is no text"


def _table(answer: Answer) -> Iterator[str]:
    yield f"a {answer.query.kind} is drawn from a table"


def _figure(answer: Answer) -> Iterator[str]:
    if not answer.has(NUMBERS) and not answer.has(TEXTS):
        yield "there is nothing to show"
    if (
        len(answer.rows) > 1
        and not answer.query.panel["options"]["reduceOptions"].get("values")
        and not answer.has(TIMES)
    ):
        yield "there is more than one row"


def _bars(answer: Answer) -> Iterator[str]:
    if not answer.has(NUMBERS):
        yield "there is no number"
    elif answer.types[0] not in TEXTS | TIMES and not answer.query.panel["options"].get("xField"):
        yield "the first column does not name the bars"


def _points(answer: Answer) -> Iterator[str]:
    if sum(code in NUMBERS for code in answer.types) < 2:
        yield "there are fewer than two numbers"


def _states(answer: Answer) -> Iterator[str]:
    if not answer.has(TIMES) or len(answer.names) < 2:
        yield "there is no time, or nothing besides"


_KINDS: dict[str, Callable[[Answer], Iterator[str]]] = {
    "variable": _variable,
    "annotation": _annotation,
    "timeseries": _table,
    "heatmap": _table,
    "stat": _figure,
    "gauge": _figure,
    "bargauge": _figure,
    "barchart": _bars,
    "trend": _points,
    "xychart": _points,
    "state-timeline": _states,
    "status-history": _states,
}
