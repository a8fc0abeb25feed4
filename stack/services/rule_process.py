"""Process of the local stack that evaluates rules and takes their actions."""

from __future__ import annotations

import hashlib
import math
import platform
import sys
import threading
import time
from functools import partial

import psycopg
from prometheus_client import generate_latest

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BenchError
from hypergauge.core.files.host_lock import HostLock
from hypergauge.core.http.server import MetricsServer
from hypergauge.core.plain import plain
from hypergauge.core.system.backoff import Backoff
from hypergauge.core.system.signals import stop_event
from hypergauge.insight.rules.engine import RuleEngine
from hypergauge.insight.rules.metrics import RuleMetrics
from hypergauge.scheduler.reactions.actions import Actions
from hypergauge.sql.runs.highlights import runs_without_highlights
from hypergauge.sql.server.database import Database
from hypergauge.stack.services.highlight_storage import HighlightStorage

__all__ = ["evaluate_rules"]

# Interval of checks for runs; the settings have the interval of evaluations.
_LOOK_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 30.0
# Time limit of the last evaluation; the next process evaluates the remaining runs.
_LAST_SECONDS = 4.0


def evaluate_rules(settings: Settings, bind: str, port: int, *, insecure: bool) -> None:
    """Evaluate rules on this home's runs, and serve the evaluation's metrics, until SIGTERM or Ctrl-C."""
    stopped = stop_event()
    metrics = RuleMetrics()
    server = MetricsServer(
        lambda: generate_latest(metrics.registry), bind, port, web=settings.web_config, insecure=insecure
    )
    with server, Database(settings) as database:
        if _take_lock(settings, stopped):
            with HighlightStorage(metrics.waiting.set, metrics.errors.labels("highlights").inc) as storage:
                _evaluate_until(stopped, database, metrics, storage)


def _take_lock(settings: Settings, stopped: threading.Event) -> bool:
    """Wait until no other process evaluates this home's runs; return ``False`` if `stopped` is set first."""
    lock = HostLock(f"rules/{hashlib.sha256(str(settings.home).encode()).hexdigest()[:32]}")
    if not lock.take():
        sys.stderr.write("another process evaluates rules for this BENCH_HOME; waiting for its end\n")
        while not lock.take():
            if stopped.wait(_LOOK_SECONDS):
                return False
    return True


def _evaluate_until(
    stopped: threading.Event, database: Database, metrics: RuleMetrics, storage: HighlightStorage
) -> None:
    host, runs_dir = platform.node(), database.settings.runs_dir
    engine = RuleEngine(host, runs_dir, metrics)
    actions = Actions(database, host, runs_dir, lambda name, outcome: metrics.actions.labels(name, outcome).inc())
    backoff = Backoff(_LOOK_SECONDS, _LONGEST_PAUSE_SECONDS)
    resumed = False
    try:
        while True:
            try:
                # Both to the primary: a rule must not fire on old data of a replica.
                with database.connect() as connection, database.connect() as reader:
                    if not resumed:
                        storage.add(filter(engine.has_folder, runs_without_highlights(connection, host)))
                        resumed = True
                    while True:
                        last = stopped.is_set()
                        until = time.monotonic() + _LAST_SECONDS if last else math.inf
                        begin = partial(actions.begin, connection)
                        begin()  # actions that an earlier process has requested and not begun
                        storage.add(engine.look(connection, reader, begin, until=until))
                        backoff.worked()
                        if last:
                            return
                        stopped.wait(_LOOK_SECONDS)
            except (BenchError, psycopg.Error) as error:
                metrics.errors.labels("database").inc()
                sys.stderr.write(f"{plain(str(error))}\n")
            if stopped.wait(backoff.failed()):
                return
    finally:
        actions.close()
