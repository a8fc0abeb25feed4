"""Local stack: database, tracking server, exporters, collector, rules, Grafana."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.markup import escape

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BenchError, ServiceFailed
from hypergauge.core.services import Service, Stack
from hypergauge.exporters.serving.registry import ExporterOptions, Registry
from hypergauge.sql.server.database import Database
from hypergauge.stack.services.grafana import ensure_grafana
from hypergauge.stack.services.local_exporters import measured_here
from hypergauge.stack.services.outdated import require_own_spool, stop_outdated
from hypergauge.stack.services.start_settings import differences, start_settings
from hypergauge.stack.services.tracking_server import own_tracking_server, starting_tracking, tracking_uri
from hypergauge.stack.services.upkeep import restarting

__all__ = [
    "START_SECONDS",
    "LocalStack",
    "availability",
    "ensure",
    "local_stack",
    "service_environment",
    "start_and_keep",
]

# Limit for a service that hangs. On a busy host MLflow takes a minute.
START_SECONDS = 180.0


@dataclass(frozen=True, slots=True)
class LocalStack:
    """Running stack, held by this command."""

    settings: Settings
    database: Database
    tracking_uri: str


@contextlib.contextmanager
def local_stack(settings: Settings, notify: Callable[[str], None]) -> Iterator[LocalStack]:
    """Start the missing services, and hold all of them; the last command that holds them stops them.

    A service that dies meanwhile is restarted. `notify` receives a message for each start, which takes seconds.
    """
    stack = Stack(settings)
    with contextlib.closing(Database(settings)) as database:
        stack.hold(lambda: ensure(stack, settings, database, notify))
        try:
            uri = tracking_uri(stack, settings)
            if uri is None:
                raise ServiceFailed("mlflow has ended; its log is in BENCH_HOME/log")
            with restarting(stack, lambda: _restart(stack, settings, database, notify), notify):
                yield LocalStack(settings, database, uri)
        finally:
            stack.release()


def start_and_keep(settings: Settings, notify: Callable[[str], None]) -> list[Service]:
    """Start the stack, with Grafana if it is installed, keep it until ``bench down``, and return its services.

    Raises
    ------
    BenchError
        A service cannot start. If it is Grafana, the other services run.
    """
    stack = Stack(settings)
    failed: list[BenchError] = []

    def start() -> None:
        ensure(stack, settings, database, notify)
        try:
            ensure_grafana(stack, settings, database, notify, START_SECONDS)
        except BenchError as error:
            failed.append(error)

    with contextlib.closing(Database(settings)) as database:
        stack.hold(start)
        stack.keep(True)
        services = stack.services()
        for name, service in services.items():
            notify(f"[green]up[/] {name} {service.url}")
        stack.release()
    if failed:
        raise failed[0]
    return list(services.values())


def _restart(stack: Stack, settings: Settings, database: Database, notify: Callable[[str], None]) -> None:
    ensure(stack, settings, database, notify)
    if "grafana" in stack.died():
        ensure_grafana(stack, settings, database, notify, START_SECONDS)


def availability(settings: Settings) -> dict[str, str | None]:
    """Return the installed exporters, each with the reason why it cannot work on this host, if any."""
    registry = Registry.load()
    options = ExporterOptions(settings.home, settings.simulate)
    return {name: _problem(registry, name, options) for name in registry}


def _problem(registry: Registry, name: str, options: ExporterOptions) -> str | None:
    try:
        exporter = registry.create(name, options)
        try:
            return exporter.check()
        finally:
            # This process may live for days, and an open driver cannot be upgraded.
            if (close := getattr(exporter, "close", None)) is not None:
                close()
    except BenchError:
        raise
    except Exception as error:  # noqa: BLE001 - a third party's exporter must not hide the others
        return f"it fails with {type(error).__name__}: {' '.join(str(error).split())}"


def service_environment(settings: Settings) -> dict[str, str]:
    """Return the environment variables of a service: the shell's and the settings'.

    Inside a run, ``PYTHONPATH`` begins with the client, which would hide the rest of this package.
    """
    environment = {**os.environ, **settings.environment()}
    folders = [folder for folder in environment.pop("PYTHONPATH", "").split(os.pathsep) if folder]
    if kept := [folder for folder in map(Path, folders) if not _has_client(folder)]:
        # Services run in another folder.
        environment["PYTHONPATH"] = os.pathsep.join(str(folder.absolute()) for folder in kept)
    environment.pop("BENCH_WEB_CONFIG", None)  # the services listen on 127.0.0.1 alone, in plain HTTP
    return environment


def _has_client(folder: Path) -> bool:
    try:
        return (folder / "hypergauge/client").exists() and not (folder / "hypergauge/core").exists()
    except OSError:  # unreadable: Python skips it too
        return False


def ensure(stack: Stack, settings: Settings, database: Database, notify: Callable[[str], None]) -> None:
    """Open the database, start the missing services concurrently, and wait until each answers.

    Raises
    ------
    BadRequest
        A running service was started with other settings, and may be needed; or the spool belongs to another database.
    """
    if _is_whole(stack, settings):
        _open(database)
        return
    stopped = stop_outdated(stack, settings, notify)
    require_own_spool(settings)
    _start_missing(stack, settings, database, notify)
    if "grafana" in stopped:
        try:
            ensure_grafana(stack, settings, database, notify, START_SECONDS)
        except BenchError as error:
            notify(f"[yellow]![/] grafana cannot be restarted: {escape(str(error))}")


def _start_missing(stack: Stack, settings: Settings, database: Database, notify: Callable[[str], None]) -> None:
    running = stack.services()
    environment = service_environment(settings)
    started: list[Service] = []

    def serve(label: str, *words: str) -> None:
        if label not in running:
            port = stack.port(label)
            url = f"http://127.0.0.1:{port}/metrics"
            command = [sys.executable, "-m", "hypergauge.cli", *words, "--port", str(port)]
            recorded = start_settings(label, settings)
            started.append(
                stack.start(
                    label, command, url=url, health=url, environment=environment, settings=recorded.shown,
                    digest=recorded.digest,
                )
            )  # fmt: skip

    try:
        with contextlib.ExitStack() as starting:
            if own_tracking_server(settings) and "mlflow" not in running:
                started.append(
                    starting.enter_context(starting_tracking(stack, settings, database, environment, notify))
                )
            _open(database)
        measured = measured_here(database, settings)
        for name, reason in availability(settings).items():
            if reason is None and name not in measured:
                serve(f"exporter-{name}", "exporter", "run", name, "--own-runs")
        serve("collector", "collector", "run", "--interval", str(settings.interval))
        serve("rules", "rules", "run")
        if started:
            notify(f"Starting {', '.join(service.name for service in started)} …")
        for service in started:
            stack.await_answer(service, START_SECONDS)
    except BaseException:
        stack.stop_all([service.name for service in started])
        raise


def _open(database: Database) -> None:
    """Open a database that is not open: a failed second opening would release the server of a running command."""
    if not database.opened:
        database.open()


def _is_whole(stack: Stack, settings: Settings) -> bool:
    """Return whether all services run with these settings, so that no exporter needs a check."""
    recorded = stack.recorded()
    needed = {"collector", "rules", *(["mlflow"] if own_tracking_server(settings) else [])}
    return (
        any(name.startswith("exporter-") for name in recorded)
        and needed <= recorded.keys()
        and all(service.alive and not differences(service, settings) for service in recorded.values())
    )
