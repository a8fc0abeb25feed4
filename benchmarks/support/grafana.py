"""Dashboard variables, repeated panels and macros, resolved as Grafana 12 does."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

Json = dict[str, Any]
Value = str | list[str]

# Grafana's own expression for $name, [[name:format]] and ${name.path:format}.
_VARIABLE = re.compile(r"\$(\w+)|\[\[(\w+?)(?::(\w+))?\]\]|\$\{(\w+)(?:\.([^:^}]+))?(?::([^}]+))?\}")
_MACRO = re.compile(r"\$__(\w+)\(([^)]*)\)")


# Grafana's rounding of a panel's interval in milliseconds: below the first number, the second.
_STEPS = (
    (1500, 1000), (3500, 2000), (7500, 5000), (12_500, 10_000), (17_500, 15_000), (25_000, 20_000), (45_000, 30_000),
    (90_000, 60_000), (210_000, 120_000), (450_000, 300_000), (750_000, 600_000), (1_050_000, 900_000),
    (1_500_000, 1_200_000), (2_700_000, 1_800_000), (5_400_000, 3_600_000), (9_000_000, 7_200_000),
)  # fmt: skip
_WIDTH = 1460 / 24  # pixels of a column, in a window of 1500


@dataclass(frozen=True, slots=True)
class Span:
    """Time range of a dashboard, in Unix seconds."""

    start: float
    stop: float

    def interval(self, panel: Json) -> int:
        """Return a panel's interval in milliseconds, with a minimum interval of 1 s."""
        points = panel.get("maxDataPoints") or panel["gridPos"]["w"] * _WIDTH
        wanted = (self.stop - self.start) * 1000 / points
        return next((step for below, step in _STEPS if wanted < below), 10_800_000)


@dataclass(frozen=True, slots=True)
class Query:
    """Query of a panel, a variable or an annotation, with its variables replaced."""

    where: str
    kind: str  # the panel's type, `configuration` of a panel, `variable` or `annotation`
    format: str
    sql: str
    panel: Json = field(repr=False, compare=False)


def quoted(value: str) -> str:
    """Return a string as an SQL literal."""
    return "'" + value.replace("'", "''") + "'"


def formatted(value: Value, form: str | None, *, several: bool) -> str:
    """Return a selection in a format; by default in that of an SQL data source."""
    many = value if isinstance(value, list) else [value]
    match form:
        case None:
            return ",".join(map(quoted, many)) if several else ",".join(one.replace("'", "''") for one in many)
        case "sqlstring":
            return ",".join(map(quoted, many))
        case "csv" | "text":
            return ",".join(many)
        case "singlequote":
            return ",".join("'" + one.replace("'", "\\'") + "'" for one in many)
        case "queryparam" | "percentencode":
            return ""  # for URLs, never for a database
    raise ValueError(f"{form!r} is a format that our queries must not use")


def interpolated(text: str, values: Mapping[str, Value], variables: Mapping[str, Json]) -> str:
    """Return a text with its variables replaced, except unknown ones."""

    def replaced(match: re.Match[str]) -> str:
        name = match[1] or match[2] or match[4]
        if name not in values:
            return match[0]
        of = variables.get(name, {})
        several = bool(of.get("multi") or of.get("includeAll"))
        return formatted(values[name], match[3] or match[6], several=several)

    return _VARIABLE.sub(replaced, text)


def expanded(sql: str, span: Span) -> str:
    """Return a query with the macros of Grafana's PostgreSQL data source expanded, except `$__timeGroup`.

    That becomes `time_bucket` with TimescaleDB, so it is not for queries of both flavours.

    Raises
    ------
    ValueError
        A macro is unknown, or lacks an argument.
    """
    start, stop = quoted(_iso(span.start)), quoted(_iso(span.stop))

    def replaced(match: re.Match[str]) -> str:
        name, column = match[1], match[2].strip()
        match name:
            case "timeFrom":
                return start
            case "timeTo":
                return stop
            case "time" if column:
                return f'{column} AS "time"'
            case "timeFilter" if column:
                return f"{column} BETWEEN {start} AND {stop}"
            case "unixEpochFrom":
                return str(int(span.start))
            case "unixEpochTo":
                return str(int(span.stop))
        raise ValueError(f"unknown macro, or too few arguments: {match[0]}")

    done = _MACRO.sub(replaced, sql)
    if left := re.search(r"\$__\w+|\$\{\w+", done):
        raise ValueError(f"{left[0]} is left in the query")
    return done


def panels(dashboard: Json) -> Iterator[Json]:
    """Yield the panels of a dashboard, including those in collapsed rows, without the rows."""
    for panel in dashboard["panels"]:
        if panel["type"] == "row":
            yield from panel.get("panels", [])
        else:
            yield panel


def queries(dashboard: Json, chosen: Mapping[str, Value], span: Span) -> Iterator[Query]:
    """Yield a dashboard's queries for panels and annotations; a repeated panel has one for each value."""
    uid = dashboard["uid"]
    variables = {one["name"]: one for one in dashboard.get("templating", {}).get("list", [])}
    repeats = _row_repeats(dashboard)
    for panel in panels(dashboard):
        by = [one for one in (repeats.get(panel["id"]), panel.get("repeat")) if one]
        changes = [one["options"] for one in panel.get("transformations", [])]
        configuring = {one.get("configRefId") for one in changes}
        for values in _repeated({**chosen, "__interval_ms": str(span.interval(panel))}, by):
            for target in panel.get("targets", []):
                if target.get("hide"):
                    continue
                sql = interpolated(target["rawSql"], values, variables)
                where = f"{uid}: {panel.get('title') or panel['id']} {target['refId']}"
                kind = "configuration" if target["refId"] in configuring else panel["type"]
                yield Query(where, kind, target["format"], expanded(sql, span), panel)
    for annotation in dashboard.get("annotations", {}).get("list", []):
        if "rawSql" in (target := annotation.get("target") or {}):
            sql = expanded(interpolated(target["rawSql"], chosen, variables), span)
            yield Query(f"{uid}: {annotation['name']}", "annotation", target.get("format", "table"), sql, annotation)


def variable_query(dashboard: Json, variable: Json, chosen: Mapping[str, Value], span: Span) -> Query | None:
    """Return a variable's query, given the selections of earlier ones; ``None`` without a query."""
    if variable["type"] != "query":
        return None
    variables = {one["name"]: one for one in dashboard["templating"]["list"]}
    sql = expanded(interpolated(variable["query"], chosen, variables), span)
    return Query(f"{dashboard['uid']}: variable {variable['name']}", "variable", "table", sql, variable)


def _row_repeats(dashboard: Json) -> dict[int, str]:
    """Return the variable that repeats each panel's row."""
    found: dict[int, str] = {}
    by = None
    for panel in dashboard["panels"]:
        if panel["type"] == "row":
            by = panel.get("repeat")
        inside = panel.get("panels", []) if panel["type"] == "row" else [panel]
        found |= {one["id"]: by for one in inside if by}
    return found


def _repeated(chosen: Mapping[str, Value], names: list[str]) -> Iterator[dict[str, Value]]:
    if not names:
        yield dict(chosen)
        return
    values = chosen[names[0]]
    for value in values if isinstance(values, list) else [values]:
        yield from _repeated({**chosen, names[0]: value}, names[1:])


def _iso(seconds: float) -> str:
    """Return a time as Go's RFC3339Nano writes it: without zeros at the end."""
    text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f").rstrip("0").rstrip(".")
    return f"{text}Z"
