"""Commands ``up``, ``down``, ``exporter`` and ``collector``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from hypergauge.cli.common import Json, as_json, console, warn
from hypergauge.cli.help import Commands
from hypergauge.core.config.settings import Settings
from hypergauge.dashboards.terminal import formatting, tables
from hypergauge.stack.services.exporter_process import serve_exporter
from hypergauge.stack.services.local_stack import availability, start_and_keep
from hypergauge.stack.services.shutdown import shut_down

__all__ = ["register"]

Bind = Annotated[str, typer.Option(metavar="ADDRESS", help="Address to listen on.")]
Insecure = Annotated[
    bool, typer.Option("--insecure", help="Allow an address that other hosts reach, without TLS and logins.")
]
WebConfigFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="TLS and logins: a web.yml, as of Prometheus's --web.config.file.")
]
Port = Annotated[int, typer.Option(metavar="PORT", min=0, max=65535, help="Port to listen on; 0 for any free one.")]

exporter_app = Commands(
    help="Exporters: list them, or run one.",
    no_args_is_help=True,
    examples={"bench exporter list": "which exporters work on this host"},
)
collector_app = Commands(
    help="The collector: scrapes targets into the database.",
    no_args_is_help=True,
    examples={"bench collector check prometheus.yml": "which targets this file names"},
)


def register(app: Commands) -> None:
    """Add the commands to `app`."""
    app.command(examples={"bench up": "for Grafana, SQL or many short runs"})(up)
    app.command(examples={"bench down": "after `bench up`"})(down)
    app.add_typer(exporter_app, name="exporter")
    app.add_typer(collector_app, name="collector")


def up() -> None:
    """Start the local stack (database, collector, exporters, MLflow, Grafana where it is installed) and keep it up."""
    start_and_keep(Settings.load(), console().print)


def down(force: Annotated[bool, typer.Option("--force", help="Stop it even while runs are running.")] = False) -> None:
    """Stop the local stack. Runs in progress continue unmeasured, and cannot log to MLflow."""
    names = shut_down(Settings.load(), force=force)
    console().print(f"stopped {', '.join(names)}" if names else "nothing ran")


@exporter_app.command("list", examples={"bench exporter list": "what works here, and why not"})
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


@exporter_app.command(
    "run",
    examples={
        "bench exporter run host --port 9100": "curl 127.0.0.1:9100/metrics",
        "bench exporter run nvml --simulate 2xH100": "without a GPU",
    },
)
def exporter_run(
    name: Annotated[str, typer.Argument(metavar="NAME", help="An exporter of `bench exporter list`.")],
    port: Port = 0,
    bind: Bind = "127.0.0.1",
    simulate: Annotated[str | None, typer.Option(metavar="GPUS", help="Simulated GPUs, such as 2xH100.")] = None,
    own_runs: Annotated[
        bool, typer.Option("--own-runs", help="Measure only runs of this BENCH_HOME, not all on the host.")
    ] = False,
    announce: Annotated[
        str | None,
        typer.Option(
            metavar="HOST|URL", help="Address for collectors, in the database of BENCH_DSN; by default the bound one."
        ),
    ] = None,
    web_config: WebConfigFile = None,
    insecure: Insecure = False,
) -> None:
    """Run one exporter until SIGTERM or Ctrl-C.

    With a BENCH_DSN, that database announces it to collectors while it runs.
    """
    settings = Settings.load(simulate=simulate, web_config=web_config)
    serve_exporter(settings, name, bind, port, console().print, own_runs=own_runs, announce=announce, insecure=insecure)


@collector_app.command(
    "run", examples={"bench collector run --targets prometheus.yml": "into the database of BENCH_DSN"}
)
def collector_run(
    targets: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A prometheus.yml, or a list in file_sd form; by default the local exporters."
        ),
    ] = None,
    interval: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Time between two scrapes, 0.1 to 60, where FILE names none."),
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


@collector_app.command("check", examples={"bench collector check prometheus.yml": "before `bench collector run`"})
def collector_check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A prometheus.yml, or a list in file_sd form.")],
    json: Json = False,
) -> None:
    """Check a targets file, and show its targets.

    The files that it names are checked too. No service is queried.
    """
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
