"""Rule engine: evaluation of rules on a host's running runs, and a final one after the end of each run."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypergauge.core.config.rule_settings import MARK
from hypergauge.core.errors import BadRequest
from hypergauge.core.files.run_folder import RunFolder
from hypergauge.insight import rules
from hypergauge.insight.rules.chosen import ChosenRule, ChosenRules
from hypergauge.insight.rules.metrics import RuleMetrics
from hypergauge.insight.rules.rule import RuleFailed
from hypergauge.sql.runs import firings, rule_actions
from hypergauge.sql.runs.rule_evaluation import RunToEvaluate, mark_evaluated, runs_to_evaluate
from hypergauge.sql.server.database import Connection

__all__ = ["RuleEngine"]

_log = logging.getLogger(__name__)

# Delay of samples: an evaluation of now covers the time until then.
_LAG = timedelta(seconds=2)
# A shorter run has no two scrapes. What its script wrote is evaluated at its end.
_SHORTEST = timedelta(seconds=2)
# Pause of a slow or failed rule: doubled each time, up to the second value.
_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 10.0, 600.0
# Heavy rules of a run are evaluated less often, so that they take this share of the time: those of a run with thousands of
# tensors. A rule with a short lookback does not wait.
_SHARE, _LONGEST_WAIT_SECONDS = 0.03, 300.0


@dataclass(slots=True)
class _Pause:
    """Pause of a rule, in monotonic seconds."""

    seconds: float
    until: float


@dataclass(slots=True)
class _Pace:
    """Durations of the rules of a run in seconds, and the monotonic time until which the heavy ones wait.

    The shorter of the last two durations counts: the first has the planning, and single ones the load of the host.
    """

    heavy_seconds: float
    last: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    until: float = 0.0

    def waits(self, rule: str) -> bool:
        """Return whether the rule is heavy, and its time has not come."""
        return time.monotonic() < self.until and self.seconds.get(rule, 0.0) > self.heavy_seconds

    def took(self, rule: str, seconds: float) -> float:
        """Note the duration of an evaluation, and return the wait that it causes."""
        self.seconds[rule] = min(self.last.get(rule, 0.0), seconds)
        self.last[rule] = seconds
        return self.seconds[rule] / _SHARE if self.seconds[rule] > self.heavy_seconds else 0.0

    def wait(self, seconds: float) -> None:
        """Let the heavy rules wait."""
        now = time.monotonic()
        self.until = min(max(self.until, now) + seconds, now + _LONGEST_WAIT_SECONDS)


@dataclass(slots=True)
class _Cached:
    """Rules of a settings file, with the stamps of their files."""

    state: object
    chosen: ChosenRules


@dataclass
class RuleEngine:
    """Rule engine of one home on one host.

    Parameters
    ----------
    host
        The host's name.
    runs_dir
        Folder of the home's runs.
    heavy_seconds
        Evaluations of a heavy rule take longer than this.
    """

    host: str
    runs_dir: Path
    metrics: RuleMetrics
    heavy_seconds: float = 0.02
    _due: dict[str, float] = field(default_factory=dict)
    _pauses: dict[Path, _Pause] = field(default_factory=dict)
    _paces: dict[str, _Pace] = field(default_factory=dict)
    _cache: dict[Path | None, _Cached] = field(default_factory=dict)

    def look(
        self, connection: Connection, reader: Connection, evaluated: Callable[[], None], *, until: float = math.inf
    ) -> list[str]:
        """Evaluate the runs that are due; return ended ones that are long enough for highlights.

        Parameters
        ----------
        connection
            Connection for firings.
        reader
            Connection for rules.
        evaluated
            Called after each run.
        until
            Monotonic time after which no further run starts.
        """
        runs = [
            (run, folder) for run in runs_to_evaluate(connection, self.host) if (folder := self._folder(run.run_id))
        ]
        running = {run.run_id for run, _ in runs if run.ended_at is None}
        self._due = {run_id: due for run_id, due in self._due.items() if run_id in running}
        self._paces = {run_id: pace for run_id, pace in self._paces.items() if run_id in running}
        self.metrics.runs.set(len(running))
        concluded: list[str] = []
        for run, folder in runs:
            now = time.monotonic()
            if now >= until:
                break
            if run.ended_at is None and now >= self._due.get(run.run_id, 0.0):
                chosen = self._chosen(folder)
                self._evaluate(connection, reader, run, chosen, datetime.now(UTC) - _LAG)
                self._due[run.run_id] = time.monotonic() + chosen.settings.every.total_seconds()
                evaluated()
            elif run.ended_at is not None and (run.overdue or (run.settled and folder.delivered)):
                self._evaluate(connection, reader, run, self._chosen(folder), run.ended_at)
                firings.end_with_run(connection, run.run_id)
                mark_evaluated(connection, run.run_id)
                if run.ended_at - run.started_at >= _SHORTEST:
                    concluded.append(run.run_id)
                evaluated()
        return concluded

    def _evaluate(
        self, connection: Connection, reader: Connection, run: RunToEvaluate, chosen: ChosenRules, stop: datetime
    ) -> None:
        is_short = stop - run.started_at < _SHORTEST
        if is_short and run.ended_at is None:
            return
        began = time.monotonic()
        inputs = firings.inputs(reader, [run.run_id])[run.run_id]
        pace, wait = self._paces.setdefault(run.run_id, _Pace(self.heavy_seconds)), 0.0
        for one in chosen.enabled:
            window = one.rule.window(one.values) if run.ended_at is None else None
            patient = run.ended_at is None and (window is None or window.total_seconds() >= 2 * _LONGEST_WAIT_SECONDS)
            if not one.rule.can_fire(inputs) or (is_short and one.rule.needs_samples):
                continue
            if patient and pace.waits(one.rule.name):
                continue
            start = run.started_at if window is None else max(run.started_at, stop - window)
            rule_began = time.monotonic()
            self._evaluate_rule(connection, reader, run, one, chosen.settings.limit, start, stop)
            if patient:
                wait += pace.took(one.rule.name, time.monotonic() - rule_began)
        pace.wait(wait)
        self.metrics.evaluated.inc()
        self.metrics.seconds.inc(time.monotonic() - began)

    def _evaluate_rule(
        self, connection: Connection, reader: Connection, run: RunToEvaluate, chosen: ChosenRule, limit: timedelta,
        start: datetime, stop: datetime,
    ) -> None:  # fmt: skip
        rule = chosen.rule
        pause = self._pauses.get(rule.path)
        if pause is not None and time.monotonic() < pause.until:
            self.metrics.skipped.labels(rule.name, "paused").inc()
            return
        try:
            found = rules.evaluate(reader, rule, chosen.values, run.run_id, start, stop, limit)
        except RuleFailed as error:
            self.metrics.skipped.labels(rule.name, "slow" if error.too_slow else "failed").inc()
            seconds = min(2 * pause.seconds, _LONGEST_PAUSE_SECONDS) if pause else _PAUSE_SECONDS
            self._pauses[rule.path] = _Pause(seconds, time.monotonic() + seconds)
            _log.warning("%s (%s): %s; paused for %.0f s", rule.name, rule.path, error, seconds)
            return
        self._pauses.pop(rule.path, None)
        # One transaction: a recorded firing has its actions, even if this process ends in between.
        with connection.transaction():
            new = firings.store(connection, run.run_id, rule.name, found, start=start, stop=stop)
            wanted = dict.fromkeys((*chosen.actions, *run.actions.get(rule.name, ())))
            for firing in new:
                rule_actions.request(connection, firing, [action for action in wanted if action != MARK])
        self.metrics.firings.labels(rule.name).inc(len(new))

    def has_folder(self, run_id: str) -> bool:
        """Return whether a run is one of this home."""
        return self._folder(run_id) is not None

    def _folder(self, run_id: str) -> RunFolder | None:
        """Return a run's folder; ``None`` for a run of another home on this host."""
        folder = RunFolder(self.runs_dir / run_id)
        return folder if folder.path.is_dir() else None

    def _chosen(self, folder: RunFolder) -> ChosenRules:
        """Return the rules of the run's ``bench.toml`` in its current state."""
        name = folder.spec().get("config")
        file = Path(name) if name else None
        cached = self._cache.get(file)
        if cached is not None and cached.state == _state(file, cached.chosen):
            return cached.chosen
        try:
            chosen = ChosenRules.read(file)
        except (BadRequest, OSError) as error:
            # A half-written or deleted file keeps the previous rules, or the defaults.
            self.metrics.errors.labels("settings").inc()
            chosen = cached.chosen if cached else ChosenRules.read(None)
            _log.warning("%s; until this is fixed, rules are %s", error, "unchanged" if cached else "the defaults")
        self._cache[file] = _Cached(_state(file, chosen), chosen)
        return chosen


def _state(file: Path | None, chosen: ChosenRules) -> object:
    """Return a value that changes with the settings file and the user's rules."""
    if file is None:
        return None
    found = [file, *sorted((chosen.settings.folder or file.parent / "rules").glob("*.sql"))]
    return [(path, _stamp(path)) for path in found]


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
