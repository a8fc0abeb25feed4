"""Commands ``demo``, ``init`` and ``doctor``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from hypergauge.cli.common import Json, as_json, console, primary
from hypergauge.cli.help import Commands
from hypergauge.cli.running.schedule import run_file
from hypergauge.core.config.settings import Settings
from hypergauge.core.files.package_data import package_files
from hypergauge.dashboards.terminal import tables
from hypergauge.dashboards.terminal.comparison_sheet import sheet
from hypergauge.dashboards.terminal.comparison_table import comparison_table
from hypergauge.insight.comparison.comparison import compare
from hypergauge.scheduler.plan import checks
from hypergauge.sql.runs.experiments import choose_id
from hypergauge.stack.demo import DEMO_EXPERIMENT, number_demo, with_a_gpu, write_template
from hypergauge.stack.doctor import certificate_findings, findings
from hypergauge.stack.services.local_stack import availability

__all__ = ["register"]

_TEMPLATES = ("hypergauge.cli", "templates")

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


def register(app: Commands) -> None:
    """Add the commands to `app`."""
    app.command(examples={"bench demo": "run it all once, and see what a comparison looks like"})(demo)
    app.command(
        examples={
            "bench init": "into this folder",
            "bench init digits": "into the folder digits",
        }
    )(init)
    app.command(
        examples={
            "bench doctor": "database, GPUs, exporters, Grafana",
            "bench doctor --tls": "certificates, where other hosts connect",
        }
    )(doctor)


def demo() -> None:
    """Run a small real experiment, from training to comparison. It is experiment 0, or the next free one.

    On a host without a GPU, one is simulated: the training is real, the GPU's metrics are not.
    """
    settings, gpus = with_a_gpu(Settings.load())
    path = settings.home / "demo" / "demo.csv"
    with primary(settings) as connection:  # one embedded server from start to end
        experiment = choose_id(connection, str(path.resolve()), DEMO_EXPERIMENT)
        write_template(package_files(*_TEMPLATES, "demo"), path.parent, overwrite=True)
        number_demo(path, experiment)
        # Its folder, since relative paths count from the working directory first, which may have a `train.py` too.
        os.chdir(path.parent)
        file = checks.load(path, gpus, availability(settings))
        out = console()
        out.print(f"Running {escape(str(file.path))}: handwritten digits, trained alone and collocated.")
        if experiment != DEMO_EXPERIMENT:
            out.print(f"It is experiment {experiment}: experiment {DEMO_EXPERIMENT} belongs to another file.")
        if gpus.gpus[0].simulated:
            out.print(f"Its GPU is simulated (BENCH_SIMULATE={settings.simulate}): its metrics are not real.")
        outcomes = run_file(settings, file)
        from hypergauge.insight.sharing.collocation import interference, verdict  # imports scipy

        out.print()
        chosen = [str(experiment)]
        out.print(comparison_table(sheet(compare(connection, chosen)), out.width))
        out.print(comparison_table(sheet(compare(connection, chosen, by="workload")), out.width))
        found = interference(connection, chosen)
        for line in verdict(found):
            out.print(escape(line))
        if any(one.verdict == "disturbed" for one in found.sets):
            out.print("On this host the demo cannot decide now. Stop the other programs, and run `bench demo` again.")
    out.print("\nNext:")
    for command, what in _NEXT.items():
        out.print(f"  {command.format(experiment):<36} {what}")
    if any(outcome.status != "finished" for outcome in outcomes):
        raise typer.Exit(1)


def init(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder to write to.")] = Path(),
) -> None:
    """Write a commented experiments.csv and a script that run as they are."""
    written = write_template(package_files(*_TEMPLATES, "init"), folder, overwrite=False)
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
    found = (certificate_findings if tls else findings)(Settings.load())
    if json:
        as_json([{"what": what, "ok": ok, "detail": detail} for what, ok, detail in found])
    else:
        made = tables.table("what", "", "detail")
        for what, ok, detail in found:
            made.add_row(escape(what), "[green]ok[/]" if ok else "[yellow]no[/]", escape(detail))
        console().print(made)
    if tls and not all(ok for _, ok, _ in found):
        raise typer.Exit(1)
