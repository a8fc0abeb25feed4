"""Rule evaluation in SQL with a read-only role, and the table of firings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Self

import psycopg
from psycopg.types.json import Jsonb

from hypergauge.core.errors import BenchError
from hypergauge.sql.server.database import Connection
from hypergauge.sql.server.rows import records

__all__ = [
    "COLUMNS",
    "PLACEHOLDER",
    "Evaluations",
    "Firing",
    "RuleFailed",
    "end_with_run",
    "evaluate",
    "inputs",
    "store",
]

COLUMNS = ("started_at", "ended_at", "evidence")
PLACEHOLDER = re.compile(r"%\((\w+)\)s")

Found = tuple[datetime, datetime | None, Mapping[str, Any]]

# A rule with more intervals than this in one run is faulty.
_MOST = 1000


@dataclass(frozen=True, slots=True)
class Firing:
    """Interval of a run in which a rule holds.

    Attributes
    ----------
    ended_at
        ``None`` while the rule holds.
    evidence
        Values that triggered the rule.
    """

    run_id: str
    rule: str
    started_at: datetime
    ended_at: datetime | None
    severity: str
    evidence: Mapping[str, Any]


class RuleFailed(BenchError):
    """A rule could not be evaluated.

    Attributes
    ----------
    too_slow
        The evaluation exceeded its time limit.
    line
        Line of the error in the rule's statement, from 1; ``None`` if the database reports none.
    """

    def __init__(self, message: str, *, too_slow: bool = False, line: int | None = None) -> None:
        super().__init__(message)
        self.too_slow, self.line = too_slow, line


def evaluate(connection: Connection, statement: str, values: Mapping[str, Any], limit: timedelta) -> list[Found]:
    """Run the statement of a rule, and return its rows of `COLUMNS` in order of time; see `Evaluations`."""
    with Evaluations(connection, limit) as evaluations:
        return evaluations.evaluate(statement, values)


class Evaluations:
    """Evaluations of rules one after the other, in a read-only transaction as ``bench_reader``.

    The login of the connection (in autocommit mode) does not matter. After an error, the next evaluation begins another
    transaction.

    Parameters
    ----------
    limit
        Longest time of one evaluation.
    repeated
        Whether the same rules are evaluated many times: each is then planned once. The connection must be for this alone,
        because settings that a rule changes stay.
    """

    def __init__(self, connection: Connection, limit: timedelta, *, repeated: bool = False) -> None:
        self._connection, self._limit, self._repeated = connection, limit, repeated
        self._transaction: ExitStack | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """End the transaction. Idempotent."""
        transaction, self._transaction = self._transaction, None
        if transaction is not None:
            transaction.close()

    def evaluate(self, statement: str, values: Mapping[str, Any]) -> list[Found]:
        """Run the statement of a rule, and return its rows of `COLUMNS` in order of time.

        Overlapping intervals, such as those of several GPUs, are merged; the evidence then lists the values that differ.
        A placeholder ``%(name)s`` takes the value of that name.

        Raises
        ------
        RuleFailed
            The database refuses the statement, it takes too long, or its result has other columns or types.
        """
        names = list(dict.fromkeys(PLACEHOLDER.findall(statement)))
        numbered = PLACEHOLDER.sub(lambda found: f"${names.index(found[1]) + 1}", statement)
        # As a subquery the text must be a single query: PostgreSQL refuses several statements here.
        statement = f"select {', '.join(COLUMNS)} from (\n{numbered}\n) found order by 1 limit ${len(names) + 1}"  # noqa: S608 - that is what it is for
        try:
            self._begin()
            with psycopg.RawCursor(self._connection) as cursor:
                given = [*(values[name] for name in names), _MOST + 1]
                cursor.execute(statement.encode(), given, prepare=self._repeated)
                rows = cursor.fetchall()
        except psycopg.Error as error:
            self._roll_back()
            if isinstance(error, psycopg.OperationalError) and not isinstance(error, psycopg.errors.QueryCanceled):
                raise  # a lost connection, not a fault of the rule
            raise _refused(error, statement, self._limit) from error
        return _together(_checked(rows))

    def _begin(self) -> None:
        if self._transaction is not None:
            return
        with ExitStack() as stack:
            # The driver forgets the prepared statements at a rollback. Nothing was written, so a commit does the same.
            stack.enter_context(self._connection.transaction(force_rollback=not self._repeated))
            self._connection.execute("set transaction read only")
            _become_reader(self._connection)
            self._connection.execute(
                "select set_config('statement_timeout', %s, true), set_config('plan_cache_mode', %s, true)",
                (f"{self._limit / timedelta(milliseconds=1):.0f}", "force_generic_plan" if self._repeated else "auto"),
            )
            self._transaction = stack.pop_all()

    def _roll_back(self) -> None:
        with suppress(psycopg.Error):  # of a lost connection
            self.end()


def inputs(connection: Connection, run_ids: Sequence[str]) -> dict[str, frozenset[str]]:
    """Return which inputs of rules each run has; see `rule_inputs` in the database."""
    found = connection.execute("select id, rule_inputs(id) from unnest(%s::text[]) id", (list(run_ids),)).fetchall()
    return {run_id: frozenset(names) for run_id, names in found}


def _become_reader(connection: Connection) -> None:
    """Give up the right to write for this transaction."""
    row = connection.execute(
        "select current_user, has_table_privilege('bench.runs', 'insert, update, delete')"
    ).fetchone()
    assert row is not None
    user, may_write = row
    if not may_write:
        return
    try:
        connection.execute("set local role bench_reader")
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.InvalidParameterValue) as error:
        raise RuleFailed(
            f"{user} may write, and may not become bench_reader: have an administrator: grant bench_reader to {user}"
        ) from error


def _refused(error: psycopg.Error, statement: str, limit: timedelta) -> RuleFailed:
    """Return the database's error message with its hint."""
    if isinstance(error, psycopg.errors.QueryCanceled):
        return RuleFailed(f"it took longer than {limit.total_seconds():g} s", too_slow=True)
    line = _line(error, statement)
    if isinstance(error, psycopg.errors.UndefinedColumn) and line is None:  # the error is in the enclosing query
        return RuleFailed(f"it must return {', '.join(COLUMNS[:-1])} and {COLUMNS[-1]}")
    parts = (error.diag.message_primary or str(error), error.diag.message_detail, error.diag.message_hint)
    return RuleFailed("; ".join(part for part in parts if part), line=line)


def _line(error: psycopg.Error, statement: str) -> int | None:
    """Return the error's line in the rule's statement, which begins on the second line of `statement`."""
    position = error.diag.statement_position
    return statement.count("\n", 0, int(position) - 1) or None if position else None


def _checked(rows: Sequence[Sequence[Any]]) -> list[Found]:
    if len(rows) > _MOST:
        raise RuleFailed(f"it returns more than {_MOST} intervals for one run")
    found = []
    for started_at, ended_at, evidence in rows:
        kinds = (
            ("started_at", started_at, datetime, "timestamptz"),
            ("ended_at", ended_at, datetime | None, "timestamptz or null"),
            ("evidence", evidence, dict, "a jsonb object"),
        )
        for name, value, kind, wanted in kinds:
            if not isinstance(value, kind):
                raise RuleFailed(f"its column {name} is {value!r}, but must be {wanted}")
        found.append((started_at, ended_at, evidence))
    return found


def _together(found: Sequence[Found]) -> list[Found]:
    groups: list[list[Found]] = []
    for one in found:
        ends = [end for _, end, _ in groups[-1]] if groups else []
        if ends and (None in ends or one[0] < max(end for end in ends if end is not None)):
            groups[-1].append(one)
        else:
            groups.append([one])
    return [_merged(group) for group in groups]


def _merged(group: Sequence[Found]) -> Found:
    ends = [end for _, end, _ in group]
    ended_at = None if None in ends else max(end for end in ends if end is not None)
    together: dict[str, Any] = {}
    for key in dict.fromkeys(key for _, _, evidence in group for key in evidence):
        values = [evidence.get(key) for _, _, evidence in group]
        together[key] = values[0] if all(value == values[0] for value in values) else values
    return group[0][0], ended_at, together


def store(
    connection: Connection, run_id: str, rule: str, found: Sequence[Firing], *, start: datetime, stop: datetime
) -> list[Firing]:
    """Store the firings of a rule in a run between `start` and `stop`, and return the new ones.

    A firing that overlaps a stored one extends it: the stored start stays, with the new end and evidence. An open
    stored firing that is missing in `found` ends at `stop`.
    """
    with connection.transaction():
        stored = _stored(connection, run_id, rule, start)
        new = []
        for firing in sorted(found, key=lambda one: one.started_at):
            same = [one for one in stored if _overlap(one, firing)]
            if not same:
                _insert(connection, firing)
                new.append(firing)
                continue
            stored = [one for one in stored if one not in same]
            extended = replace(firing, started_at=same[0].started_at)
            _update(connection, extended)
            _delete(connection, same[1:])
            stored.append(extended)
        for firing in stored:
            if firing.ended_at is None and not any(_overlap(firing, one) for one in found):
                _update(connection, replace(firing, ended_at=max(stop, firing.started_at)))
    return new


def end_with_run(connection: Connection, run_id: str) -> None:
    """End the open firings of a run that has ended."""
    connection.execute(
        """
        update rule_firings f set ended_at = greatest(r.ended_at, f.started_at)
        from runs r where r.run_id = f.run_id and f.run_id = %s and f.ended_at is null and r.ended_at is not null
        """,
        (run_id,),
    )


def _overlap(one: Firing, other: Firing) -> bool:
    return one.started_at == other.started_at or (
        (one.ended_at is None or other.started_at < one.ended_at)
        and (other.ended_at is None or one.started_at < other.ended_at)
    )


def _stored(connection: Connection, run_id: str, rule: str, start: datetime) -> list[Firing]:
    return records(
        connection,
        Firing,
        """
            select run_id, rule, started_at, ended_at, severity, evidence from rule_firings
            where run_id = %s and rule = %s and (ended_at is null or ended_at >= %s)
            order by started_at for update
            """,
        (run_id, rule, start),
    )


def _insert(connection: Connection, firing: Firing) -> None:
    connection.execute(
        """
        insert into rule_firings (run_id, rule, started_at, ended_at, severity, evidence)
        values (%s, %s, %s, %s, %s, %s)
        """,
        (firing.run_id, firing.rule, firing.started_at, firing.ended_at, firing.severity, Jsonb(dict(firing.evidence))),
    )


def _update(connection: Connection, firing: Firing) -> None:
    connection.execute(
        """
        update rule_firings set ended_at = %s, severity = %s, evidence = %s
        where run_id = %s and rule = %s and started_at = %s
        """,
        (firing.ended_at, firing.severity, Jsonb(dict(firing.evidence)), firing.run_id, firing.rule, firing.started_at),
    )


def _delete(connection: Connection, firings: Sequence[Firing]) -> None:
    for one in firings:
        connection.execute(
            "delete from rule_firings where run_id = %s and rule = %s and started_at = %s",
            (one.run_id, one.rule, one.started_at),
        )
