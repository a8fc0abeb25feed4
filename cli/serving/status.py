"""Command ``status``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import typer
from rich.markup import escape

from hypergauge.cli.common import Json, as_json, console, gpu_text
from hypergauge.cli.servers import Server
from hypergauge.core.addresses import without_login
from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BenchError
from hypergauge.core.services import Service, Stack
from hypergauge.dashboards.terminal import formatting, tables
from hypergauge.gpu import inventory
from hypergauge.sql.ingest.target_errors import FailingTarget, failing_targets
from hypergauge.sql.ingest.targets import ClockOffset, clock_offsets, unmeasured_hosts
from hypergauge.sql.queries.report import findings
from hypergauge.sql.queries.summaries import Live, live_values
from hypergauge.sql.runs.selection import RunInfo, select_runs
from hypergauge.sql.server.database import Connection, Database
from hypergauge.stack.collector_status import CollectorStatus
from hypergauge.stack.unmeasured import unmeasured_message

__all__ = ["register"]

# Largest clock offset without a warning, in seconds: a tenth of a scrape interval.
CLOCK_SECONDS = 0.1


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command()(status)


def status(json: Json = False) -> None:
    """Show what runs now, and whether database, collector, exporters, MLflow and Grafana answer."""
    settings = Settings.load()
    recorded = Stack(settings).recorded()
    services = _services(settings, recorded)
    collector = CollectorStatus.read(services["collector"][1]) if services.get("collector", (False,))[0] else None
    known = False
    running: list[RunInfo] = []
    clocks: list[ClockOffset] = []
    failing: list[FailingTarget] = []
    unmeasured: list[str] = []
    metrics: Mapping[str, Live] = {}
    firing: Mapping[str, list[str]] = {}
    try:
        with Database(settings, reading=True) as opened, opened.session() as connection:
            server = Server.of(connection)
            running = [run for run in select_runs(connection, []) if run.status == "running"]
            metrics = live_values(connection, [run.run_id for run in running])
            clocks = clock_offsets(connection)
            failing = failing_targets(connection)
            unmeasured = unmeasured_hosts(connection)
            firing = _firing(connection, running)
            known = True
    except BenchError as error:
        server = Server(False, str(error))
    database, reads = server.and_primary(settings)
    # The exporters may measure other GPUs than this command's settings name.
    measured = (one.simulate for name, one in recorded.items() if name.startswith("exporter-") and one.alive)
    gpus = inventory(next(measured, settings.simulate), settings.home)
    if json:
        as_json(
            {
                "gpus": [asdict(gpu) for gpu in gpus.gpus],
                "database": database.as_dict(),
                "reads": reads and reads.reads_as_dict(),
                "services": {name: {"up": up, "url": url} for name, (up, url) in services.items()},
                "collector": asdict(collector) if collector else None,
                # Null if the database does not answer.
                "clocks": [asdict(clock) for clock in clocks] if known else None,
                "failing": [asdict(one) | {"url": without_login(one.url)} for one in failing] if known else None,
                "unmeasured": unmeasured if known else None,
                "runs": [
                    {
                        **asdict(run),
                        "run": run.label,
                        "live": asdict(metrics[run.run_id]) if run.run_id in metrics else None,
                        "firing": firing[run.run_id],
                    }
                    for run in running
                ]
                if known
                else None,
            }
        )
        return
    out = console()
    out.print(f"database   {_word(database.up)}  {escape(database.text)}")
    if reads is not None:
        well, text = reads.describe_reads(database)
        out.print(f"reads      {_word(reads.up)}  {'' if well else '[yellow]![/] '}{escape(text)}")
    for name, (up, url) in services.items():
        out.print(f"{name:<10} {_word(up)}  {url}")
        if name == "collector" and collector is not None:
            out.print(f"           {escape(collector.line())}")
    if not services:
        out.print("no services run; `bench schedule` starts what it needs, `bench up` keeps it")
    for gpu in gpus.gpus:
        out.print(f"{f'GPU {gpu.index}':<10} {escape(gpu_text(gpu))}")
    _warn_of_failing(failing)
    _warn_of_clocks(clocks)
    _warn_of_unmeasured(unmeasured)
    if known:
        _show_runs(running, metrics, firing)
    else:
        out.print("[yellow]![/] the running runs are unknown while the database is away; they continue")


def _show_runs(running: Sequence[RunInfo], metrics: Mapping[str, Live], firing: Mapping[str, Sequence[str]]) -> None:
    if not running:
        console().print("no run is running")
        return
    made = tables.table("run", "id", "name", ">for", ">CPU", ">memory", "firing rules")
    for run in running:
        live = metrics.get(run.run_id)
        cpu = formatting.value_text("cpu_utilization", live.cpu_usage) if live else ""
        memory = formatting.value_text("_bytes", live.memory_used) if live else ""
        label = run.label + (formatting.SIMULATED if run.simulated else "")
        rules = escape(", ".join(firing[run.run_id]))
        made.add_row(label, run.run_id[:8], escape(run.name), formatting.duration(run.duration), cpu, memory, rules)
    console().print(made)


def _firing(connection: Connection, runs: Sequence[RunInfo]) -> dict[str, list[str]]:
    """Return the rules that fire now, by run."""
    holding = [one for one in findings(connection, [run.run_id for run in runs]) if one.ended is None]
    return {run.run_id: [one.rule for one in holding if one.run_id == run.run_id] for run in runs}


def _services(settings: Settings, recorded: Mapping[str, Service]) -> dict[str, tuple[bool, str]]:
    """Return whether each service of the stack and each configured one answers, and its address, by name."""
    found = {name: (service.answers(), service.url) for name, service in recorded.items()}
    for name, url, health in (
        ("mlflow", settings.tracking_uri, "/health"),
        ("grafana", settings.grafana_url, "/api/health"),
    ):
        if url and name not in found:
            shown = without_login(url).rstrip("/")
            found[name] = (Service(name, 0, 0.0, shown, shown + health).answers(), shown)
    return found


def _warn_of_failing(failing: list[FailingTarget]) -> None:
    for one in failing:
        what = f"{one.listener} of {one.host} ({without_login(one.url)}) cannot be scraped: {one.error}"
        console().print(f"[yellow]![/] {escape(what)}")


def _warn_of_unmeasured(hosts: list[str]) -> None:
    for host in hosts:
        console().print(f"[yellow]![/] {escape(unmeasured_message(host))}")


def _warn_of_clocks(clocks: list[ClockOffset]) -> None:
    for clock in clocks:
        if abs(clock.offset) - clock.uncertainty > CLOCK_SECONDS:
            side = "ahead of" if clock.offset > 0 else "behind"
            off, give = formatting.duration(abs(clock.offset)), formatting.duration(clock.uncertainty)
            console().print(f"[yellow]![/] the clock of {escape(clock.host)} is {off} {side} the collector's, ± {give}")


def _word(up: bool) -> str:
    return "[green]up[/]  " if up else "[red]down[/]"
