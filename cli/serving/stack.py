"""Local stack: database, tracking server, exporters, collector, rules, Grafana."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hypergauge.cli.serving.local_exporters import announced_here, answers
from hypergauge.cli.serving.upkeep import kept_up
from hypergauge.core.addresses import without_login
from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest, BenchError, ServiceFailed, TrackingUnavailable
from hypergauge.core.files.run_folder import RunFolder
from hypergauge.core.services import Service, Stack
from hypergauge.dashboards.grafana.server import GrafanaServer, admin_password
from hypergauge.exporters.serving.registry import ExporterOptions, Registry
from hypergauge.scheduler.supervision import goes_on
from hypergauge.scheduler.tracking.artifact_store import require_store, store_keys
from hypergauge.sql.server.database import Database
from hypergauge.sql.server.reader import reader

__all__ = [
    "LocalStack",
    "availability",
    "ensure",
    "ensure_grafana",
    "grafana_url",
    "local_stack",
    "own_tracking_server",
    "start_tracking",
    "tracking_uri",
]

# A limit for what hangs. Beside eight busy processes MLflow takes a minute; at its first start Grafana makes a database of
# its own, in hundreds of steps.
_START_SECONDS = 180.0
_GRAFANA_PORT = 3000
_GRAFANA = "grafana"  # its folder under BENCH_HOME


@dataclass(frozen=True, slots=True)
class LocalStack:
    """The running stack, held by this command."""

    settings: Settings
    database: Database
    tracking_uri: str


@contextlib.contextmanager
def local_stack(settings: Settings, say: Callable[[str], None]) -> Iterator[LocalStack]:
    """Start what is missing, hold it all, and let go at the end: the last one to do so stops it.

    What dies meanwhile is started again. `say` is told what is started, since that takes seconds.
    """
    stack = Stack(settings)
    with Database(settings) as database:
        stack.hold(lambda: ensure(stack, settings, database, say))
        try:
            uri = tracking_uri(stack, settings)
            if uri is None:
                raise ServiceFailed("mlflow has ended; its log is in BENCH_HOME/log")
            with kept_up(stack, lambda: _start_again(stack, settings, database, say), say):
                yield LocalStack(settings, database, uri)
        finally:
            stack.release()


def _start_again(stack: Stack, settings: Settings, database: Database, say: Callable[[str], None]) -> None:
    ensure(stack, settings, database, say)
    if "grafana" in stack.died():
        ensure_grafana(stack, settings, database, say)


def availability(settings: Settings) -> dict[str, str | None]:
    """Return the exporters that there are, with the reason where one cannot work on this host."""
    registry = Registry.load()
    options = ExporterOptions(settings.home, settings.simulate)
    return {name: _problem(registry, name, options) for name in registry}


def _problem(registry: Registry, name: str, options: ExporterOptions) -> str | None:
    try:
        listener = registry.create(name, options)
        try:
            return listener.check()
        finally:
            # We go on, maybe for days, and are no exporter: a driver that we had open could not be exchanged.
            if (close := getattr(listener, "close", None)) is not None:
                close()
    except BenchError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a third party's does, the others are there
        return f"it fails with {type(error).__name__}: {' '.join(str(error).split())}"


def own_tracking_server(settings: Settings) -> bool:
    """Return whether a tracking server is ours to run: none is configured, or a store that runs cannot reach by HTTP."""
    return not (settings.tracking_uri or "").startswith(("http://", "https://"))


def tracking_uri(stack: Stack, settings: Settings) -> str | None:
    """Return where MLflow is reached, ours or the one that is configured; ``None`` where ours has ended."""
    own = stack.services().get("mlflow") if own_tracking_server(settings) else None
    return own.url if own else settings.tracking_uri


def ensure(stack: Stack, settings: Settings, database: Database, say: Callable[[str], None]) -> None:
    """Start the services that do not run, at the same time, and wait until all answer.

    Raises
    ------
    BadRequest
        The exporters measure other GPUs than are wanted, real ones or simulated ones, and are needed as they are.
    """
    if _is_whole(stack, settings):
        return
    _stop_listeners_of_other_gpus(stack, settings, say)
    running = stack.services()
    environment = {**os.environ, **settings.environment()}
    environment.pop("PYTHONPATH", None)
    environment.pop("BENCH_WEB_CONFIG", None)  # they are on 127.0.0.1 alone, and are asked in plain HTTP
    started: list[Service] = []

    def serve(label: str, *words: str) -> None:
        if label not in running:
            port = stack.port(label)
            url = f"http://127.0.0.1:{port}/metrics"
            command = [sys.executable, "-m", "hypergauge.cli", *words, "--port", str(port)]
            started.append(stack.start(label, command, url=url, health=url, environment=environment))

    try:
        if own_tracking_server(settings) and "mlflow" not in running:
            started.append(start_tracking(stack, settings, database, environment, say))
        services = announced_here(database, settings)
        for name, reason in availability(settings).items():
            if reason is None and not (name in services and answers(services[name])):
                serve(f"exporter-{name}", "exporter", "run", name, "--own-runs")
        serve("collector", "collector", "run", "--interval", str(settings.interval))
        serve("rules", "rules", "run")
        if started:
            say(f"Starting {', '.join(service.name for service in started)} …")
        for service in started:
            stack.await_answer(service, _START_SECONDS)
    except BaseException:
        stack.stop_all([service.name for service in started])
        raise


def _is_whole(stack: Stack, settings: Settings) -> bool:
    """Return whether all that was started runs, and measures the GPUs that are wanted: what could be started need not be found out."""
    recorded = stack.recorded()
    listeners = [service for name, service in recorded.items() if name.startswith("exporter-")]
    needed = {"collector", "rules", *(["mlflow"] if own_tracking_server(settings) else [])}
    return (
        bool(listeners)
        and needed <= recorded.keys()
        and all(service.alive for service in recorded.values())
        and all(service.simulate == settings.simulate for service in listeners)
    )


def ensure_grafana(stack: Stack, settings: Settings, database: Database, say: Callable[[str], None]) -> None:
    """Start Grafana where it is installed and does not run, and wait until it answers.

    Raises
    ------
    BadRequest
        There is nobody who may read and no more; or ``GRAFANA_HOME`` is wrong.
    ServiceFailed
        It ended, or does not answer.
    """
    if "grafana" in stack.services() or (found := GrafanaServer.find()) is None:
        return
    port = stack.port("grafana", _GRAFANA_PORT)
    mlflow = tracking_uri(stack, settings) or ""
    command, variables = found.command(settings.home / _GRAFANA, reader(database), port, without_login(mlflow))
    url = f"http://127.0.0.1:{port}"
    say("Starting grafana …")
    service = stack.start(
        "grafana", command, url=url, health=f"{url}/api/health", environment={**os.environ, **variables}
    )
    try:
        stack.await_answer(service, _START_SECONDS)
    except BaseException:
        stack.stop_all([service.name])
        raise


def grafana_url(settings: Settings, *, login: bool = False) -> str:
    """Return where Grafana is: as configured, where the local stack has it, or where Compose and Grafana itself do.

    With `login`, the local stack's has the name and password of who may change it.
    """
    own = Stack(settings).services().get("grafana")
    if settings.grafana_url is not None or own is None:
        return (settings.grafana_url or f"http://127.0.0.1:{_GRAFANA_PORT}").rstrip("/")
    return own.url.replace("://", f"://admin:{admin_password(settings.home / _GRAFANA)}@") if login else own.url


def _stop_listeners_of_other_gpus(stack: Stack, settings: Settings, say: Callable[[str], None]) -> None:
    others = [
        service
        for name, service in stack.services().items()
        if name.startswith("exporter-") and service.simulate != settings.simulate
    ]
    if not others:
        return
    theirs, ours = (
        f"BENCH_SIMULATE={one}" if one else "no BENCH_SIMULATE" for one in (others[0].simulate, settings.simulate)
    )
    going = sum(goes_on(folder) for folder in RunFolder.all(settings.runs_dir))
    if stack.shared or going:
        by = f"{going} {'run' if going == 1 else 'runs'}" if going else "another command"
        raise BadRequest(
            f"the exporters that run were started with {theirs}, and {by} may need them so; this command has {ours}: "
            f"give it the same, or wait until they have ended"
        )
    say(f"The exporters were started with {theirs}; starting them anew with {ours} …")
    stack.stop_all([service.name for service in others])


def start_tracking(
    stack: Stack, settings: Settings, database: Database, environment: dict[str, str], say: Callable[[str], None]
) -> Service:
    """Start MLflow's server on our database, in a schema of its own, or on the store that is configured.

    `say` is told where the store of artifacts does not answer, and where it has another port than it had.

    Raises
    ------
    BadRequest
        The store of artifacts cannot be used as it is configured.
    """
    if settings.tracking_uri is None:
        with database.session() as connection:
            connection.execute("create schema if not exists mlflow")
        store = database.sqlalchemy_url("mlflow")
    else:
        store = _absolute(settings.tracking_uri)
    artifacts = settings.artifacts or str(settings.home / "artifacts")
    try:
        require_store(artifacts)
    except TrackingUnavailable as error:
        say(f"{error}; runs go on, and it gets what they leave later")
    port = stack.lasting_port("mlflow", say)
    url = f"http://127.0.0.1:{port}"
    words = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    return stack.start(
        "mlflow",
        [*words, "--artifacts-destination", artifacts],
        url=url,
        health=f"{url}/health",
        environment={
            **{name: value for name, value in environment.items() if name != "MLFLOW_TRACKING_URI"},
            **store_keys(),
            "MLFLOW_BACKEND_STORE_URI": store,  # not an argument: it may hold a password, and `ps` shows those
            "MLFLOW_ALLOW_FILE_STORE": "true",  # a folder is what was asked for
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
            "MLFLOW_DISABLE_TELEMETRY": "true",
        },
    )


def _absolute(store: str) -> str:
    """Return a store of MLflow's so that its place does not depend on the server's working directory."""
    if store.startswith("sqlite:///"):
        return f"sqlite:///{Path(store.removeprefix('sqlite:///')).absolute()}"
    return store if ":" in store else str(Path(store).absolute())
