"""The command ``rules run``: the process that evaluates rules and takes their actions."""

from __future__ import annotations

import contextlib
import hashlib
import math
import platform
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from functools import partial

import psycopg
import typer
from prometheus_client import generate_latest

from hypergauge.cli.serving.serve import Bind, Insecure, Port, WebConfigFile
from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BenchError
from hypergauge.core.files.host_lock import HostLock
from hypergauge.core.http.server import MetricsServer
from hypergauge.core.plain import plain
from hypergauge.insight.rules.engine import RuleEngine
from hypergauge.insight.rules.metrics import RuleMetrics
from hypergauge.scheduler.reactions.actions import Actions
from hypergauge.sql.server.database import Database

__all__ = ["register"]

# Between two looks at which runs there are; how often each is judged, its settings say.
_LOOK_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 30.0
# What has ended and is not judged by then is judged at the next start; a service has some more to end.
_LAST_SECONDS = 4.0
_REMEMBER_SECONDS = 8.0


def register(rules: typer.Typer) -> None:
    """Add the command to those about rules."""
    rules.command()(run)


def run(port: Port = 0, bind: Bind = "127.0.0.1", web_config: WebConfigFile = None, insecure: Insecure = False) -> None:
    """Ask rules about the runs of this BENCH_HOME while they go on, until SIGTERM or Ctrl-C."""
    settings = Settings.load(web_config=web_config)
    told = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: told.set())
    metrics = RuleMetrics()
    server = MetricsServer(
        lambda: generate_latest(metrics.registry), bind, port, web=settings.web_config, insecure=insecure
    )
    with server, Database(settings) as database:
        if _alone(settings, told):
            _judge_until(told, database, metrics)


def _alone(settings: Settings, told: threading.Event) -> bool:
    """Wait until no other process judges the runs of this home; return whether that came about before `told`."""
    claim = HostLock(f"rules/{hashlib.sha256(str(settings.home).encode()).hexdigest()[:32]}")
    if not claim.take():
        sys.stderr.write("another process judges the runs of this BENCH_HOME; waiting until it ends\n")
        while not claim.take():
            if told.wait(_LOOK_SECONDS):
                return False
    return True


def _judge_until(told: threading.Event, database: Database, metrics: RuleMetrics) -> None:
    host, runs_dir = platform.node(), database.settings.runs_dir
    judge = RuleEngine(host, runs_dir, metrics)
    actions = Actions(database, host, runs_dir, lambda name, outcome: metrics.actions.labels(name, outcome).inc())
    pause = _LOOK_SECONDS
    try:
        while True:
            try:
                # Of the primary both: what is judged by must not be of a while ago.
                with database.connect() as connection, database.connect() as reader:
                    while True:
                        last = told.is_set()
                        until = time.monotonic() + _LAST_SECONDS if last else math.inf
                        begin = partial(actions.begin, connection)
                        begin()  # what another process was asked for and did not come to
                        _remember(judge.look(connection, reader, begin, until=until))
                        pause = _LOOK_SECONDS
                        if last:
                            return
                        told.wait(_LOOK_SECONDS)
            except (BenchError, psycopg.Error) as error:
                metrics.errors.labels("database").inc()
                sys.stderr.write(f"{plain(str(error))}\n")
            if told.wait(pause):
                return
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
    finally:
        actions.close()


def _remember(run_ids: Sequence[str]) -> None:
    """Have the highlights of runs that have ended kept, before anybody asks for them."""
    if run_ids:
        with contextlib.suppress(subprocess.TimeoutExpired):  # they are computed when they are asked for
            subprocess.run(
                [sys.executable, "-m", "hypergauge.insight.highlights.storage", *run_ids],
                stdin=subprocess.DEVNULL,
                timeout=_REMEMBER_SECONDS,
                check=False,
            )
