"""Commands ``up``, ``down``, ``exporter`` and ``collector``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from hypergauge.cli.common import Json, as_json, console, warn
from hypergauge.core.config.settings import Settings
from hypergauge.dashboards.terminal import formatting, tables
from hypergauge.stack.services.exporter_process import serve_exporter
from hypergauge.stack.services.local_stack import availability, start_and_keep
from hypergauge.stack.services.shutdown import shut_down

__all__ = ["register"]

Bind = Annotated[str, typer.Option(help="Address to listen on.")]
Insecure = Annotated[bool, typer.Option("--insecure", help="Allow an address that other hosts reach.")]
WebConfigFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="TLS and logins, in the form of Prometheus's --web.config.file.")
]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 for any free one.")]

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
    start_and_keep(Settings.load(), console().print)


def down(force: Annotated[bool, typer.Option("--force", help="Even while runs are running.")] = False) -> None:
    """Stop the local stack. Runs in progress continue unmeasured, and cannot log to MLflow."""
    names = shut_down(Settings.load(), force=force)
    console().print(f"stopped {', '.join(names)}" if names else "nothing ran")


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
        typer.Option(
            metavar="HOST|URL", help="Address for collectors, written to BENCH_DSN; by default the bound one."
        ),
    ] = None,
    web_config: WebConfigFile = None,
    insecure: Insecure = False,
) -> None:
    """Run one exporter until SIGTERM or Ctrl-C. With a BENCH_DSN it is announced there while it runs."""
    settings = Settings.load(simulate=simulate, web_config=web_config)
    serve_exporter(settings, name, bind, port, console().print, own_runs=own_runs, announce=announce, insecure=insecure)


@collector_app.command("run")
def collector_run(
    targets: Annotated[
        Path | None,
        typer.Option(help="A prometheus.yml, or a list in file_sd form; by default the local exporters."),
    ] = None,
    interval: Annotated[
        float | None, typer.Option(help="Seconds between two scrapes, 0.1 to 60, unless the file says.")
    ] = None,
    port: Port = 0,
    bind: Bind = "127.0.0.1",
    web_config: WebConfigFile = None,
    insecure: Insecure = False,
) -> None:
    """Run the collector until SIGTERM or Ctrl-C."""
    from hypergauge.stack.services.collector_process import run_collector

    settings = Settings.load(interval=interval, web_config=web_config)
    run_collector(settings, targets, bind, port, warn, insecure=insecure)


@collector_app.command("check")
def collector_check(
    file: Annotated[Path, typer.Argument(help="A targets file.")],
    json: Json = False,
) -> None:
    """Check a targets file and the files that it names, and show its targets. No service is queried."""
    from hypergauge.collector.discovery.discovery import check_targets

    targets = check_targets(file, warn)
    if json:
        as_json([target.public() for target in targets])
        return
    made = tables.table("url", "host", "exporter", ">every")
    for target in targets:
        made.add_row(
            escape(target.url), escape(target.host), escape(target.listener), formatting.duration(target.interval)
        )
    console().print(made)
