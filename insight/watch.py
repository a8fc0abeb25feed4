"""Live view of running runs: one poll a second at bounded cost, until all have ended."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from hypergauge.core.errors import BadRequest, DatabaseUnavailable
from hypergauge.core.selectors import Selector
from hypergauge.sql.queries.live import Position, Recent, holding_rules, positions, recent_values
from hypergauge.sql.runs.experiments import being_scheduled
from hypergauge.sql.runs.selection import RunInfo, has_runs, select_runs
from hypergauge.sql.server import replica
from hypergauge.sql.server.database import Connection, Database

__all__ = ["QUANTITIES", "Level", "Watched", "WatchedRun", "watch"]

QUANTITIES = ("cpu_usage", "memory_used", "gpu_utilization", "gpu_power")

# Two minutes in points of two seconds: more points than most terminals have columns.
_WINDOW_SECONDS, _STEP_SECONDS = 120.0, 2.0
# Largest delay of a sample. Older points are final.
_LATE_SECONDS = 14.0
# Older values are not current.
_STALE_SECONDS = 10.0
# After a slow poll, a pause of four times its duration: a fifth of the time is the database's highest load.
_EVERY_SECONDS, _PAUSES_PER_LOOK = 1.0, 4.0
_OVER = frozenset({"finished", "failed", "stopped", "timeout"})


@dataclass(frozen=True, slots=True)
class Level:
    """Value of a run's quantity now, in the canonical unit, with its scope.

    Attributes
    ----------
    history
        Means over `_STEP_SECONDS` each, the oldest first; ``None`` for missing ones.
    """

    value: float
    scope: str
    history: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True)
class WatchedRun:
    """A run, with position, levels by quantity and firing rules while it is running."""

    run: RunInfo
    position: Position | None = None
    levels: Mapping[str, Level] = field(default_factory=dict)
    rules: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        run, at = self.run, self.position
        return {
            "run": run.label,
            "run_id": run.run_id,
            "attempt": run.attempt,
            "name": run.name,
            "status": run.status,
            "started_at": run.started_at,
            "duration": run.duration,
            "reason": run.reason,
            "simulated": run.simulated,
            "phase": at and at.phase,
            "epoch": at and at.epoch,
            "step": at and at.step,
            "rules": list(self.rules),
            "values": {name: {"value": one.value, "scope": one.scope} for name, one in self.levels.items()},
        }


@dataclass(frozen=True, slots=True)
class Watched:
    """View of the runs at one time.

    Attributes
    ----------
    over
        Whether all runs have ended and no further one is expected.
    problem
        Reason for an outdated view: the database does not answer.
    behind
        Notice about a late replica.
    awaited
        Messages about selectors whose first run is expected.
    """

    runs: tuple[WatchedRun, ...]
    over: bool
    problem: str | None = None
    behind: str | None = None
    awaited: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        """Return whether a run did not finish."""
        return any(one.run.status in _OVER - {"finished"} for one in self.runs)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        runs = [one.as_dict() for one in self.runs]
        about = {"over": self.over, "problem": self.problem, "behind": self.behind, "awaited": list(self.awaited)}
        return {"time": datetime.now(UTC), **about, "runs": runs}


def watch(database: Database, selectors: Sequence[str]) -> Iterator[Watched]:
    """Yield views of runs, about once a second, until all have ended and no command schedules their experiment.

    An experiment without runs is watched until its first run exists. If the database fails, the view has a `problem` and
    polling continues.

    Raises
    ------
    BadRequest
        A selector is malformed, or names nothing in an experiment that has runs and is not being scheduled.
    DatabaseUnavailable
        The database does not answer the first query.
    """
    seen: Watched | None = None
    while seen is None or not seen.over:
        try:
            with database.session() as connection, _primary(database, connection) as primary:
                for seen in _polls(connection, primary, selectors):
                    yield seen
        except DatabaseUnavailable as error:
            if seen is None:
                raise
            seen = replace(seen, problem=str(error).partition("\n")[0])
            yield seen
            time.sleep(_EVERY_SECONDS)


@contextlib.contextmanager
def _primary(database: Database, connection: Connection) -> Iterator[Connection]:
    """Connect to the primary of a replica if it is known and answers; else yield `connection`."""
    with contextlib.ExitStack() as opened:
        primary = connection
        if database.settings.dsn is not None and replica.replication(connection).standby:
            with contextlib.suppress(DatabaseUnavailable):  # without a primary, no run can be scheduled
                primary = opened.enter_context(Database(database.settings).session())
        yield primary


def _polls(connection: Connection, primary: Connection, selectors: Sequence[str]) -> Iterator[Watched]:
    values, schedules = _RecentValues(), _Schedules(connection, primary)
    over = False
    while not over:
        began = time.monotonic()
        runs, expected, awaited = _select(connection, schedules, selectors)
        running = [run.run_id for run in runs if run.status == "running"]
        at = positions(connection, running) if running else {}
        rules = holding_rules(connection, running) if running else {}
        levels = values.levels(connection, running) if running else {}
        over = not expected and all(run.status in _OVER for run in runs)
        yield Watched(
            tuple(
                WatchedRun(run, at.get(run.run_id), levels.get(run.run_id, {}), rules.get(run.run_id, ()))
                for run in runs
            ),
            over,
            behind=replica.notice(connection),
            awaited=awaited,
        )
        if not over:
            took = time.monotonic() - began
            time.sleep(max(_EVERY_SECONDS - took, _PAUSES_PER_LOOK * took))


class _Schedules:
    """Experiments with a scheduler. Only the primary knows them; a replica shows their end later."""

    def __init__(self, connection: Connection, primary: Connection) -> None:
        self._connection, self._primary = connection, primary
        self._ends: dict[int, str] = {}

    def has(self, experiment: int) -> bool:
        """Return whether further runs of `experiment` are possible."""
        if being_scheduled(self._primary, experiment):
            self._ends.pop(experiment, None)
            return True
        if self._primary is self._connection:
            return False
        end = self._ends.setdefault(experiment, replica.wal_position(self._primary))
        return not replica.has_replayed(self._connection, end)


def _select(
    connection: Connection, schedules: _Schedules, selectors: Sequence[str]
) -> tuple[list[RunInfo], bool, tuple[str, ...]]:
    """Return the current runs, whether more are possible, and the messages of selectors without runs.

    More are possible while an experiment has a scheduler or no runs.
    """
    runs: dict[str, RunInfo] = {}
    awaited: list[str] = []
    expected = False
    for text, one in [(text, Selector.parse(text)) for text in selectors]:
        # Before the query of runs, so that these are complete once the scheduler has ended.
        scheduled = one.experiment is not None and schedules.has(one.experiment)
        try:
            found = select_runs(connection, [text])
        except BadRequest as error:
            if not scheduled and (one.experiment is None or has_runs(connection, one.experiment)):
                raise
            found = []
            awaited.append(str(error))
        expected |= not found or (scheduled and one.workload is None)
        runs |= {run.run_id: run for run in found}
    return list(runs.values()), expected, tuple(awaited)


class _RecentValues:
    """Values of the last minutes: fetched once, then only new ones."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], dict[float, float]] = {}
        self._queried = -math.inf

    def levels(self, connection: Connection, run_ids: Sequence[str]) -> dict[str, dict[str, Level]]:
        """Return the levels of runs by quantity."""
        before, self._queried = self._queried, time.monotonic()
        seconds = min(self._queried - before + _LATE_SECONDS, _WINDOW_SECONDS)
        # Values of the host are not the run's own.
        found = [
            one for one in recent_values(connection, run_ids, QUANTITIES, seconds, _STEP_SECONDS) if one.scope != "host"
        ]
        newest: dict[tuple[str, str], Recent] = {}
        for one in found:
            self._known.setdefault((one.run_id, one.quantity), {})[one.at] = one.value
            newest[one.run_id, one.quantity] = one
        levels: dict[str, dict[str, Level]] = {}
        for (run_id, quantity), one in newest.items():
            if one.age < _STALE_SECONDS:
                history = self._history((run_id, quantity), one.at + one.age)
                levels.setdefault(run_id, {})[quantity] = Level(one.value, one.scope, history)
        return levels

    def _history(self, key: tuple[str, str], now: float) -> tuple[float | None, ...]:
        """Return all points but the current, incomplete one; drop older points."""
        self._known[key] = {at: value for at, value in self._known[key].items() if at > now - _WINDOW_SECONDS}
        points = {at // _STEP_SECONDS: value for at, value in self._known[key].items()}
        last = now // _STEP_SECONDS
        count = round(_WINDOW_SECONDS / _STEP_SECONDS)
        return tuple(points.get(last - back) for back in range(count, 0, -1))
