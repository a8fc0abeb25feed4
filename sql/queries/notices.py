"""Notices: facts that keep charts, tables and reports from misleading."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from hypergauge.sql.server.database import Connection
from hypergauge.sql.server.rows import value

__all__ = ["Fact", "Notice", "Reason", "chart_notices", "notices", "uneven_workloads", "verdict_texts"]


@dataclass(frozen=True, slots=True)
class Fact:
    """Notice without severity and text: a code of the catalog, run labels, and values."""

    code: str
    runs: Sequence[str] = ()
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reason:
    """Reason in the values of a notice: a code of the catalog's ``notice_reason``, and values."""

    code: str
    values: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object: the code as ``reason``, beside the values."""
        return {"reason": self.code, **self.values}


@dataclass(frozen=True, slots=True)
class Notice:
    """Notice of the catalog ``notice_codes``, in the form for display and JSON.

    Attributes
    ----------
    severity
        ``info`` or ``warning``.
    runs
        Labels of the affected runs.
    values
        Values in SI units and fractions of 1; a list has a number per run.
    text
        Sentence for display.
    """

    code: str
    severity: str
    runs: list[str]
    values: dict[str, Any]
    text: str


def chart_notices(
    connection: Connection, run_ids: Sequence[str], quantities: Sequence[str], scopes: Sequence[str] | None
) -> tuple[Notice, ...]:
    """Return the notices on a chart of runs.

    The notice of a lagging replica is left out: each command shows it once, when it connects.
    """
    with connection.cursor(row_factory=class_row(Notice)) as cursor:
        return tuple(
            cursor.execute(
                """
                select code, severity, runs, "values", notice_text(code, runs, "values") as text
                from chart_notice(%s, %s, null, p_scopes => %s) where code <> 'replica_behind'
                """,
                (list(run_ids), list(quantities), None if scopes is None else list(scopes)),
            )
        )


def notices(connection: Connection, facts: Iterable[Fact]) -> tuple[Notice, ...]:
    """Return facts as notices with severity and text, in order.

    Raises
    ------
    KeyError
        The catalog has no such code.
    """
    facts = list(facts)
    rows = [{"code": one.code, "runs": list(one.runs), "values": dict(one.values)} for one in facts]
    with connection.cursor(row_factory=class_row(Notice)) as cursor:
        found = cursor.execute(
            """
            select code, c.severity, runs, "values", notice_text(code, runs, "values") as text
            from rows from (jsonb_to_recordset(%s) as (code text, runs text[], "values" jsonb)) with ordinality
                 as f (code, runs, "values", nth)
            join notice_codes() c using (code) order by nth
            """,
            [Jsonb(rows)],
        ).fetchall()
    if unknown := {one.code for one in facts} - {one.code for one in found}:
        raise KeyError(*unknown)
    return tuple(found)


def verdict_texts(connection: Connection, verdicts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the texts of verdicts, each from the values that ``verdict_text`` names."""
    return value(
        connection,
        list,
        "select coalesce(array_agg(verdict_text(one) order by nth), '{}') from jsonb_array_elements(%s) with ordinality as x (one, nth)",
        (Jsonb(list(verdicts)),),
    )


def uneven_workloads(connection: Connection, run_ids: Sequence[str]) -> list[str]:
    """Return the labels of workloads of which some of these runs ended long before the others."""
    return value(connection, list, "select coalesce(uneven_workloads(%s), '{}')", (list(run_ids),))
