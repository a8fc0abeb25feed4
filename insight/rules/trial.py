"""Trial of the user's own rule on the newest run, before it is used."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypergauge.core.errors import BadRequest
from hypergauge.insight import rules
from hypergauge.insight.rules.rule import Rule
from hypergauge.sql.runs.selection import RunInfo, select_runs
from hypergauge.sql.server.database import Connection

__all__ = ["newest_run", "try_rule"]

_EARLIEST = datetime.min.replace(tzinfo=UTC)


def newest_run(connection: Connection) -> RunInfo | None:
    """Return the run that started last, ``None`` if no run has started."""
    started = [run for run in select_runs(connection, []) if run.started_at is not None]
    return max(started, key=lambda run: run.started_at or _EARLIEST, default=None)


def try_rule(connection: Connection, file: Path, run: RunInfo | None, limit: timedelta) -> Rule:
    """Evaluate the rule in a file on a run, and return it; without a run, its statement is only checked.

    Raises
    ------
    BadRequest
        The rule is invalid, is named like a built-in one, or cannot be evaluated; names the line.
    """
    rule = rules.read(file)
    if rule.name in rules.load():
        raise BadRequest(f"{rule.name} is a built-in rule; give this one another name", file=file, line=1)
    now = datetime.now(UTC)
    run_id, start = (run.run_id, run.started_at or now) if run else ("", now)
    try:
        rules.evaluate(connection, rule, rule.values(), run_id, start, now, limit)
    except rules.RuleFailed as error:
        raise BadRequest(str(error), file=file, line=rule.line + (error.line or 1) - 1) from error
    return rule
