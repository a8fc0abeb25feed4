"""The commands ``up``, ``down``, ``exporter`` and ``collector``."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from hypergauge.cli.common import Json, as_json, console, warn
from hypergauge.cli.serving.announcing import Announcer, announced_url
from hypergauge.cli.serving.local_exporters import LocalExporters
from hypergauge.cli.serving.stack import availability, ensure, ensure_grafana, tracking_uri
from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest, BenchError
from hypergauge.core.files.run_folder import RunFolder
from hypergauge.core.http.server import require_closed
from hypergauge.core.services import Stack
from hypergauge.dashboards.terminal import tables
from hypergauge.exporters.serving.registry import ExporterOptions, Registry
from hypergauge.exporters.serving.server import ExporterServer
from hypergauge.scheduler.supervision import goes_on, is_delivering
from hypergauge.sql.server.database import Database

__all__ = ["register"]

# How long `bench down` waits for what runs have left.
_DELIVERY_SECONDS = 10.0

Bind = Annotated[str, typer.Option(help="Address to listen on.")]
Insecure = Annotated[bool, typer.Option("--insecure", help="Allow an address that other hosts reach.")]
WebConfigFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="TLS and logins, in the form of Prometheus's --web.config.file.")
]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 for one that is free.")]

exporter_app = typer.Typer(help="Exporters: list them, or run one.", no_args_is_help=True)
collector_app = typer.Typer(help="The collector: scrapes targets into the database.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command()(up)
    app.command()(down)
    app.add_typer(exporter_app, name="exporter")
    app.add_typer(collector_app, name="collector")


def up() -> None:
    """Start the local stack (database, collector, exporters, MLflow, Grafana where it is installed) and keep it."""
    settings = Settings.load()
    stack = Stack(settings)
    failed: list[BenchError] = []

    def start() -> None:
        ensure(stack, settings, database, console().print)
        try:
            ensure_grafana(stack, settings, database, console().print)
        except BenchError as error:  # what measures goes on without it
            failed.append(error)

    with Database(settings) as database:
        stack.hold(start)
        stack.keep(True)
        for name, service in stack.services().items():
            console().print(f"[green]up[/] {name} {service.url}")
        stack.release()
    for error in failed:
        raise error


def down(force: Annotated[bool, typer.Option("--force", help="Even while runs are running.")] = False) -> None:
    """Stop the local stack. Running runs go on unmeasured, and cannot log to MLflow."""
    settings = Settings.load()
    stack = Stack(settings)
    going = [folder.run_id[:8] for folder in RunFolder.all(settings.runs_dir) if goes_on(folder)]
    if going and not force:
        raise BadRequest(
            f"{len(going)} runs go on ({', '.join(going)}); `bench stop` ends them, --force leaves them alone"
        )
    stack.keep(False)
    _await_deliveries(settings)
    with contextlib.ExitStack() as held:
        if "collector" in stack.services():  # held, so that the collector can still write while it ends
            database = Database(settings)
            held.callback(database.close)
            with contextlib.suppress(BenchError):
                database.hold()
        names: list[str] = []
        # While no command that holds them takes them for dead, and starts them again.
        stack.exclusively(lambda: names.extend(stack.stop_all()))
    console().print(f"stopped {', '.join(names)}" if names else "nothing ran")


def _await_deliveries(settings: Settings) -> None:
    """Let what runs that have just ended have left arrive; what does not in time arrives with the next run."""
    until = time.monotonic() + _DELIVERY_SECONDS
    while time.monotonic() < until and any(is_delivering(folder) for folder in RunFolder.all(settings.runs_dir)):
        time.sleep(0.1)


@exporter_app.command("list")
def exporter_list(json: Json = False) -> None:
    """Show the exporters, and whether each can work on this host."""
    found = availability(Settings.load())
    if json:
        as_json([{"name": name, "works": reason is None, "reason": reason} for name, reason in found.items()])
        return
    made = tables.table("exporter", "works here", "why not")
    for name, reason in found.items():
        made.add_row(name, "[green]yes[/]" if reason is None else "no", escape(reason or ""))
    console().print(made)


@exporter_app.command("run")
def exporter_run(
    name: Annotated[str, typer.Argument(help="The exporter.")],
    port: Port = 0,
    bind: Bind = "127.0.0.1",
    simulate: Annotated[str | None, typer.Option(help="Simulated GPUs, such as 2xH100.")] = None,
    own_runs: Annotated[
        bool, typer.Option("--own-runs", help="Only runs of this BENCH_HOME, not all on the host.")
    ] = False,
    announce: Annotated[
        str | None,
        typer.Option(metavar="HOST|URL", help="Where others reach it, for BENCH_DSN; by default as it is bound."),
    ] = None,
    web_config: WebConfigFile = None,
    insecure: Insecure = False,
) -> None:
    """Run one exporter until SIGTERM or Ctrl-C. With a BENCH_DSN it is announced there, and withdrawn at its end."""
    settings = Settings.load(simulate=simulate, web_config=web_config)
    if announce is not None and settings.dsn is None:
        raise BadRequest("--announce needs a database that other hosts ask as well: set BENCH_DSN")
    exporter = Registry.load().create(name, ExporterOptions(settings.home, settings.simulate, own_runs))
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    with contextlib.ExitStack() as running:
        server = ExporterServer(exporter, bind, port, web=settings.web_config, insecure=insecure)
        announced_url(server.url, announce)  # a place that is none is refused before anything starts
        running.enter_context(server)
        if settings.dsn is not None and (announce or not own_runs):  # a stack's own collector scrapes what it runs
            running.enter_context(Announcer(settings, server, announced_url(server.url, announce)))
        console().print(f"listening on {server.url}")
        ended.wait()


@collector_app.command("run")
def collector_run(
    targets: Annotated[
        Path | None,
        typer.Option(help="A prometheus.yml, or a list in file_sd form; by default the local exporters."),
    ] = None,
    interval: Annotated[
        float | None, typer.Option(help="Seconds between two scrapes, 0.1 to 60, where the file does not say.")
    ] = None,
    port: Port = 0,
    bind: Bind = "127.0.0.1",
    web_config: WebConfigFile = None,
    insecure: Insecure = False,
) -> None:
    """Run the collector until SIGTERM or Ctrl-C."""
    from hypergauge.collector.collector import collect
    from hypergauge.collector.discovery.config_file import read_config
    from hypergauge.scheduler.tracking.summary_delivery import SummaryDelivery

    settings = Settings.load(interval=interval, web_config=web_config)
    require_closed(bind, settings.web_config, insecure=insecure)  # before a database is started for it
    if targets is not None:
        read_config(targets, settings.interval, warn)  # a bad file is refused before a database is started for it
    with contextlib.closing(Database(settings)) as database:
        if away := database.open_or_wait():
            warn(f"{away}; the database is away: what is scraped is kept, and written when it is there")
        wanted = targets or LocalExporters(settings, database)
        with SummaryDelivery(database, lambda: tracking_uri(Stack(settings), settings)):
            collect(
                database, wanted, settings.spool_dir, port=port, bind=bind, web=settings.web_config, insecure=insecure,
                interval=settings.interval,
            )  # fmt: skip


@collector_app.command("check")
def collector_check(
    file: Annotated[Path, typer.Argument(help="A targets file.")],
    json: Json = False,
) -> None:
    """Check a targets file and those it names, and show what would be scraped. Services are not asked."""
    from hypergauge.collector.discovery.discovery import check_targets

    targets = check_targets(file, warn)
    if json:
        as_json([target.public() for target in targets])
        return
    made = tables.table("url", "host", "exporter", ">every")
    for target in targets:
        made.add_row(escape(target.url), escape(target.host), escape(target.listener), tables.duration(target.interval))
    console().print(made)
