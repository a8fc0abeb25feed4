"""Commands ``demo``, ``init`` and ``doctor``."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from hypergauge.cli.common import Json, as_json, console, gpu_text, primary
from hypergauge.cli.running.schedule import run_file
from hypergauge.cli.servers import Server
from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest, BenchError
from hypergauge.core.files import private
from hypergauge.core.files.run_folder import write_atomically
from hypergauge.dashboards.grafana.server import HOW_TO_GET_ONE, GrafanaServer
from hypergauge.dashboards.terminal import tables
from hypergauge.dashboards.terminal.comparison_sheet import sheet
from hypergauge.dashboards.terminal.comparison_table import comparison_table
from hypergauge.gpu import Inventory, inventory
from hypergauge.insight.comparison.comparison import compare
from hypergauge.scheduler.plan import checks
from hypergauge.sql.ingest.targets import unmeasured_hosts
from hypergauge.sql.maintenance.background import failing_jobs
from hypergauge.sql.maintenance.tuning import costly_settings
from hypergauge.sql.runs.experiments import choose_id
from hypergauge.sql.schema import extension
from hypergauge.sql.schema.flavour import Flavour
from hypergauge.sql.server.database import Connection, Database
from hypergauge.sql.server.lease import network_filesystem
from hypergauge.stack.local_stack import availability
from hypergauge.stack.unmeasured import unmeasured_message

__all__ = ["register"]

_DEMO_GPUS = "1xH100"
_DEMO_EXPERIMENT = 0  # so that users' experiments start at 1
_NEXT = {
    "bench compare {0} --baseline {0}/1/1": "differences to a run",
    "bench compare {0} --by workload": "workloads instead of runs",
    "bench interference {0}": "what sharing cost each run, and whether it paid off",
    "bench report {0} -o report.html": "the whole experiment on one page, with charts",
    "bench rules replay {0}": "bottlenecks: one run is confined to one core",
    "bench logs {0}/1/1": "a run's output",
    "bench metrics {0}": "the measured quantities",
    "bench db shell": "SQL: select * from run_summary",
    "bench init": "an experiment file and a script of your own",
}


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command()(demo)
    app.command()(init)
    app.command()(doctor)


def demo() -> None:
    """Run a small real experiment, from training to comparison. It is experiment 0, or the next free one.

    On a host without a GPU, one is simulated: the training is real, the GPU's metrics are not.
    """
    settings, gpus = _with_a_gpu(Settings.load())
    path = settings.home / "demo" / "demo.csv"
    with primary(settings) as connection:
        experiment = choose_id(connection, str(path.resolve()), _DEMO_EXPERIMENT)
    _lay_out(path.parent, "demo", overwrite=True)
    number_demo(path, experiment)
    file = checks.load(path, gpus, availability(settings))
    out = console()
    out.print(f"Running {escape(str(file.path))}: handwritten digits, trained alone and collocated.")
    if experiment != _DEMO_EXPERIMENT:
        out.print(f"It is experiment {experiment}: experiment {_DEMO_EXPERIMENT} belongs to another file.")
    if gpus.gpus[0].simulated:
        out.print(f"Its GPU is simulated (BENCH_SIMULATE={settings.simulate}): its metrics are not real.")
    outcomes = run_file(settings, file)
    failed = [outcome for outcome in outcomes if outcome.status != "finished"]
    from hypergauge.insight.sharing.collocation import interference, verdict  # imports scipy

    with primary(settings) as connection:
        out.print()
        chosen = [str(experiment)]
        out.print(comparison_table(sheet(compare(connection, chosen)), out.width))
        out.print(comparison_table(sheet(compare(connection, chosen, by="workload")), out.width))
        for line in verdict(interference(connection, chosen)):
            out.print(escape(line))
    out.print("\nNext:")
    for command, what in _NEXT.items():
        out.print(f"  {command.format(experiment):<36} {what}")
    if failed:
        raise typer.Exit(1)


def number_demo(path: Path, experiment: int) -> None:
    """Set the experiment id in each row of the demo's file."""
    header, *rows = path.read_text(encoding="utf-8").splitlines()
    numbered = [",".join([str(experiment), *row.split(",")[1:]]) for row in rows]
    write_atomically(path, "\n".join([header, *numbered, ""]), 0o644)


def _with_a_gpu(settings: Settings) -> tuple[Settings, Inventory]:
    """Return the settings and this host's GPUs; simulated GPUs if it has none."""
    gpus = inventory(settings.simulate, settings.home)
    if not gpus.gpus:
        settings = replace(settings, simulate=_DEMO_GPUS)
        gpus = inventory(settings.simulate, settings.home)
    return settings, gpus


def init(
    folder: Annotated[Path, typer.Argument(help="The folder to write to.")] = Path(),
) -> None:
    """Write a commented experiments.csv and a script that run as they are."""
    written = _lay_out(folder, "init", overwrite=False)
    for path in written:
        console().print(f"wrote {escape(str(path))}")
    console().print(f"Run it with: bench schedule {escape(str(folder / 'experiments.csv'))}")


def doctor(
    tls: Annotated[
        bool, typer.Option("--tls", help="Check the web.yml, its certificates and the connection to the database.")
    ] = False,
    json: Json = False,
) -> None:
    """Show what is missing on this host, and the command that fixes it."""
    if tls:
        from hypergauge.cli import tls as certificates  # imports cryptography

        found = certificates.findings(Settings.load())
    else:
        found = _findings(Settings.load())
    if json:
        as_json([{"what": what, "ok": ok, "detail": detail} for what, ok, detail in found])
    else:
        made = tables.table("what", "", "detail")
        for what, ok, detail in found:
            made.add_row(escape(what), "[green]ok[/]" if ok else "[yellow]no[/]", escape(detail))
        console().print(made)
    if tls and not all(ok for _, ok, _ in found):
        raise typer.Exit(1)


def _findings(settings: Settings) -> list[tuple[str, bool, str]]:
    findings: list[tuple[str, bool, str]] = []
    findings.append(("Python", sys.version_info >= (3, 11), sys.version.split()[0]))
    unmeasured: list[str] = []
    slow: list[tuple[str, bool, str]] = []
    try:
        with Database(settings, reading=True) as opened, opened.session() as connection:
            server = Server.of(connection)
            unmeasured = unmeasured_hosts(connection)
            slow = _slow(connection)
    except BenchError as error:
        server = Server(False, str(error))
    database, reads = server.and_primary(settings)
    hint = ""
    if database.flavour is Flavour.POSTGRESQL:
        hint = "; for long or many runs, set BENCH_DSN to a TimescaleDB Community server (docker compose up -d)"
    findings.append(("database", database.up, database.text + hint))
    findings += slow
    if reads is not None:
        findings.append(("reads (BENCH_READ_DSN)", *reads.describe_reads(database)))
    findings += [(f"host {host}", False, unmeasured_message(host)) for host in unmeasured]
    if settings.dsn is None and (kind := network_filesystem(settings.database_dir)):
        detail = f"{settings.database_dir} lies on a network file system ({kind}): set BENCH_HOME to a local folder"
        findings.append(("database folder", False, detail))
    gpus = inventory(settings.simulate, settings.home)
    findings += [(f"GPU {gpu.index}", True, gpu_text(gpu)) for gpu in gpus.gpus]
    if not gpus.gpus:
        findings.append(("GPUs", False, f"none ({gpus.reason}); try BENCH_SIMULATE=2xH100"))
    elif gpus.reason:
        findings.append(("GPUs", False, gpus.reason))
    for name, reason in availability(settings).items():
        findings.append((f"exporter {name}", reason is None, reason or "works here"))
    findings.append(("Grafana", *_grafana()))
    home = settings.home
    private.make_folder(home)
    free = shutil.disk_usage(home).free
    findings.append(("BENCH_HOME", os.access(home, os.W_OK) and free > 1 << 30, f"{home}, {free >> 30} GiB free"))
    return findings


def _slow(connection: Connection) -> list[tuple[str, bool, str]]:
    """Return findings about a slow database: an unused extension, costly settings, failing jobs."""
    missed = extension.advice(connection)
    return [
        *([("TimescaleDB", False, missed)] if missed else []),
        *(("database setting", False, setting.describe()) for setting in costly_settings(connection)),
        *(("background job", False, job.describe()) for job in failing_jobs(connection)),
    ]


def _grafana() -> tuple[bool, str]:
    try:
        found = GrafanaServer.find()
    except BadRequest as error:
        return False, str(error)
    return found is not None, f"{found.home}; `bench up` starts it" if found else HOW_TO_GET_ONE


def _lay_out(folder: Path, template: str, *, overwrite: bool) -> list[Path]:
    source = files("hypergauge.cli").joinpath("templates", template)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for entry in sorted(source.iterdir(), key=lambda entry: entry.name):
        path = folder / entry.name
        if path.exists() and not overwrite:
            raise BadRequest("it exists already; nothing was written", file=path)
        written.append((path, entry.read_bytes()))
    for path, content in written:
        write_atomically(path, content, 0o644)
    return [path for path, _ in written]
