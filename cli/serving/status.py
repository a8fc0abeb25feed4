"""Command ``status``."""

from __future__ import annotations

from collections.abc import Iterable

from rich.markup import escape

from hypergauge.cli.common import Json, as_json, console
from hypergauge.cli.help import Commands
from hypergauge.core.addresses import without_login
from hypergauge.core.config.settings import Settings
from hypergauge.core.listing import counted
from hypergauge.dashboards.terminal import formatting, tables
from hypergauge.sql.ingest.target_errors import FailingTarget
from hypergauge.sql.ingest.targets import ClockOffset
from hypergauge.stack.services.start_settings import describe
from hypergauge.stack.status import Measured, Status
from hypergauge.stack.unmeasured import unmeasured_message

__all__ = ["register"]


def register(app: Commands) -> None:
    """Add the command to `app`."""
    app.command(
        examples={
            "bench status": "what runs, and what answers",
            "bench status --json | jq .runs": "for a program",
        }
    )(status)


def status(json: Json = False) -> None:
    """Show what runs now, and whether database, collector, exporters, MLflow and Grafana answer."""
    found = Status.read(Settings.load())
    if json:
        as_json(found.as_dict())
        return
    _show_services(found)
    if found.outdated:
        names, started_with, wanted = describe(found.outdated)
        text = f"{names} run with {started_with}; this command has {wanted}: `bench down` and `bench up` change that"
        console().print(f"[yellow]![/] {escape(text)}")
    if restarted := found.database.describe_restarts():
        console().print(f"[yellow]![/] {escape(restarted)}")
    if found.measured is None:
        console().print("[yellow]![/] the running runs are unknown while the database is away; they continue")
        return
    _warn_of_failing(found.measured.failing)
    _warn_of_clocks(clock for clock in found.measured.clocks if clock.is_off)
    _warn_of_unmeasured(found.measured.unmeasured)
    for wait in found.measured.lock_waits:
        console().print(f"[yellow]![/] {escape(wait.describe())}")
    _show_runs(found.measured)


def _show_services(found: Status) -> None:
    out = console()
    width = max(map(len, ("database", *found.services, *(gpu.label for gpu in found.gpus)))) + 2
    out.print(f"{'database':<{width}}{_word(found.database.up)}  {escape(found.database.text)}")
    if found.reads is not None:
        well, text = found.reads.describe_reads(found.database)
        out.print(f"{'reads':<{width}}{_word(found.reads.up)}  {'' if well else '[yellow]![/] '}{escape(text)}")
    for name, (up, url) in found.services.items():
        out.print(f"{name:<{width}}{_word(up)}  {url}")
        if name == "collector" and found.collector is not None:
            out.print(f"{'':<{width}}{escape(found.collector.line())}")
        if name == "rules" and found.runs_without_highlights:
            waiting = counted(found.runs_without_highlights, "ended run")
            out.print(f"{'':<{width}}{waiting} without stored highlights yet; BENCH_HOME/log/rules.log has failures")
    if not found.services:
        out.print("no services run; `bench schedule` starts what it needs, `bench up` keeps it up")
    for gpu in found.gpus:
        out.print(f"{gpu.label:<{width}}{escape(gpu.describe())}")


def _show_runs(found: Measured) -> None:
    if not found.running:
        console().print("no run is running")
        return
    made = tables.table("run", "id", "name", ">for", ">CPU", ">memory", "firing rules")
    for run in found.running:
        live = found.metrics.get(run.run_id)
        cpu = formatting.value_text("cpu_utilization", live.cpu_usage) if live else ""
        memory = formatting.value_text("_bytes", live.memory_used) if live else ""
        label = run.label + (formatting.SIMULATED if run.simulated else "")
        rules = escape(", ".join(found.firing[run.run_id]))
        made.add_row(label, run.run_id[:8], escape(run.name), formatting.duration(run.duration), cpu, memory, rules)
    console().print(made)


def _warn_of_failing(failing: Iterable[FailingTarget]) -> None:
    for one in failing:
        what = f"{one.listener} of {one.host} ({without_login(one.url)}) cannot be scraped: {one.error}"
        console().print(f"[yellow]![/] {escape(what)}")


def _warn_of_unmeasured(hosts: Iterable[str]) -> None:
    for host in hosts:
        console().print(f"[yellow]![/] {escape(unmeasured_message(host))}")


def _warn_of_clocks(clocks: Iterable[ClockOffset]) -> None:
    for clock in clocks:
        side = "ahead of" if clock.offset > 0 else "behind"
        off, give = formatting.duration(abs(clock.offset)), formatting.duration(clock.uncertainty)
        console().print(f"[yellow]![/] the clock of {escape(clock.host)} is {off} {side} the collector's, ± {give}")


def _word(up: bool) -> str:
    return "[green]up[/]  " if up else "[red]down[/]"
