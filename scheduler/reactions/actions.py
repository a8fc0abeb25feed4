"""Actions on rule firings: profile a run, stop it or its workload, or notify. Each runs once, and its outcome is recorded."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg

from hypergauge.core.config.rule_settings import PROFILE, STOP_RUN, STOP_WORKLOAD
from hypergauge.core.errors import BadRequest, BenchError, ServiceFailed
from hypergauge.core.evidence import evidence_text
from hypergauge.core.files.run_folder import RunFolder
from hypergauge.scheduler.profilers.live import profile_live
from hypergauge.scheduler.reactions.notifications import NotificationFailed, send
from hypergauge.scheduler.supervision import ask_to_stop
from hypergauge.sql.runs import rule_actions
from hypergauge.sql.runs.rule_actions import Outcome, RequestedAction
from hypergauge.sql.server.database import Connection, Database

__all__ = ["Actions"]

_log = logging.getLogger(__name__)

# Concurrent actions, so that a webhook without an answer does not block the others.
_AT_A_TIME = 4
_STORE_TRIES = 3
_LONGEST_EVIDENCE = 200
_PROFILE_SECONDS, _PROFILE_RATE = 20.0, 20


class Actions:
    """Executor of requested actions on the runs of one home and host.

    Parameters
    ----------
    done
        Callback for each action and its outcome.
    profile_seconds
        Duration of a profile.
    """

    def __init__(
        self, database: Database, host: str, runs_dir: Path, done: Callable[[str, Outcome], None],
        profile_seconds: float = _PROFILE_SECONDS,
    ) -> None:  # fmt: skip
        self._database, self._host, self._runs_dir, self._done = database, host, runs_dir, done
        self._profile_seconds = profile_seconds
        self._pool = ThreadPoolExecutor(_AT_A_TIME, thread_name_prefix="action")

    def begin(self, connection: Connection) -> None:
        """Begin all requested actions that no process has begun yet."""
        for request in rule_actions.requested_actions(connection, self._host):
            folder = self._folder(request.run_id)
            # Recorded first, so that an action of a process that dies is not repeated.
            if folder.path.is_dir() and rule_actions.begin(connection, request):
                self._pool.submit(self._do, request, folder)

    def close(self) -> None:
        """Wait for the actions in progress; each has a timeout."""
        self._pool.shutdown()

    def _do(self, request: RequestedAction, folder: RunFolder) -> None:
        try:
            outcome, detail = self._outcome(request, folder)
        except Exception as error:  # noqa: BLE001 - recorded as failed, by type: the message may quote a secret address
            outcome, detail = "failed", type(error).__name__
        self._done(request.action, outcome)
        _log.warning(
            "%s: %s for %s: %s%s", request.label, request.action, request.rule, outcome, f", {detail}" if detail else ""
        )
        for _ in range(_STORE_TRIES):
            try:
                with self._database.session() as connection:
                    rule_actions.end(connection, request, outcome, detail)
                return
            except (BenchError, psycopg.Error) as error:
                _log.warning("its outcome is not stored yet: %s", error)
                time.sleep(1.0)

    def _outcome(self, request: RequestedAction, folder: RunFolder) -> tuple[Outcome, str]:
        if request.action == STOP_RUN:
            return _stop([folder], f"stopped by the rule {request.rule}: {_words(request)}")
        if request.action == STOP_WORKLOAD:
            with self._database.session() as connection:
                runs = rule_actions.running_in_workload(connection, request.run_id)
            reason = f"stopped with its workload by the rule {request.rule}, which fired in {request.label}: {_words(request)}"
            return _stop(map(self._folder, runs), reason)
        if request.action == PROFILE:
            return self._profile(folder)
        try:
            file = folder.spec().get("config")
            from hypergauge.core.config.rule_sections import (
                read_rules,  # imported here to save memory in processes without such actions
            )

            action = read_rules(Path(file) if file else None).actions[request.action]
            return "done", send(action, _facts(request))
        except (BadRequest, OSError, KeyError):
            return "failed", "the settings of the run no longer have this action"
        except NotificationFailed as error:
            return "failed", str(error)

    def _profile(self, folder: RunFolder) -> tuple[Outcome, str]:
        if folder.end() is not None:
            return "needless", "it had ended"
        try:
            with self._database.session() as connection:
                number = profile_live(connection, folder, self._profile_seconds, _PROFILE_RATE)
        except (BadRequest, ServiceFailed) as error:
            return "failed", str(error)
        return "done", f"profile {number} by py-spy"

    def _folder(self, run_id: str) -> RunFolder:
        return RunFolder(self._runs_dir / run_id)


def _stop(folders: Iterable[RunFolder], reason: str) -> tuple[Outcome, str]:
    running = [folder for folder in folders if folder.path.is_dir() and folder.end() is None]
    if not running:
        return "needless", "it had ended"
    lost = [folder.run_id[:8] for folder in running if not ask_to_stop(folder, reason)]
    if lost:
        return "failed", f"{', '.join(lost)} lost its supervisor; `bench schedule` on its file ends it"
    return "done", ""


def _words(request: RequestedAction) -> str:
    """Return the evidence in one readable line."""
    words = evidence_text(request.evidence) or "without further evidence"
    return words if len(words) <= _LONGEST_EVIDENCE else f"{words[: _LONGEST_EVIDENCE - 1]}…"


def _facts(request: RequestedAction) -> dict[str, Any]:
    """Return the content of a notification. Chat services show `text`; `id` is the same for each retry."""
    return {
        "rule": request.rule,
        "severity": request.severity,
        "started_at": request.started_at.isoformat(),
        "evidence": request.evidence,
        "run": request.label,
        "run_id": request.run_id,
        "name": request.name,
        "experiment": request.experiment_id,
        "workload": request.workload,
        "host": request.host,
        "text": f"{request.rule} ({request.severity}) fired in {request.label} {request.name}: {_words(request)}",
        "id": f"{request.run_id}-{request.rule}-{request.started_at.timestamp():.6f}-{request.action}",
    }
