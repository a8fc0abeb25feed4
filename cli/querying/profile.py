"""Command ``profile``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hypergauge.cli.common import Json, Run, as_json, console, primary, reading, warn
from hypergauge.cli.help import Commands
from hypergauge.core.errors import BadRequest
from hypergauge.sql.runs.selection import select_run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypergauge.insight.profiles import Compared, Content

__all__ = ["register"]


def register(app: Commands) -> None:
    """Add the command to `app`."""
    app.command(
        examples={
            "bench profile 1/3/2": "what took its time",
            "bench profile 1/3/2 --against 1/3/1": "which of them take longer here",
            "bench profile 1/3/2 --seconds 20": "profile the run while it runs",
        }
    )(profile)


def profile(
    run: Run,
    against: Annotated[str | None, typer.Option(metavar="RUN", help="Show what differs from this run.")] = None,
    seconds: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=1, help="First sample the Python functions of the live run for so long."),
    ] = None,
    rate: Annotated[int, typer.Option(metavar="N", min=1, max=1000, help="Samples per second, with --seconds.")] = 20,
    profiler: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Only this profiler: 'py-spy', 'perf-record', 'torch', 'nsys' or 'ncu'."),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help="Only 'function', 'native', 'operator', 'kernel', 'memory', 'cuda', 'range' or 'system'.",
        ),
    ] = None,
    phase: Annotated[str | None, typer.Option(metavar="NAME", help="Only this phase of the run.")] = None,
    top: Annotated[int, typer.Option(metavar="N", min=1, help="Entries of each kind.")] = 10,
    json: Json = False,
) -> None:
    """Show what functions, operators and kernels of a run took, or profile it live."""
    if seconds is not None:
        _record(run, seconds, rate)
        profiler = profiler or "py-spy"
    from hypergauge.insight import profiles

    with reading(measured=[run]) as connection:
        mine, theirs = select_run(connection, run), None if against is None else select_run(connection, against)
        found = profiles.content(connection, mine, profiles.chosen(connection, mine, profiler), kind, phase)
        if theirs is None:
            compared = None
        else:
            others = profiles.content(connection, theirs, profiles.chosen(connection, theirs, profiler), kind, phase)
            compared = profiles.compare_all(connection, found, others)
    if json:
        as_json([_content(one) for one in found] if compared is None else [asdict(one) for one in compared])
    elif compared is None:
        _show(found, top)
    else:
        _show_difference(compared, top)


def _record(run: str, seconds: float, rate: int) -> None:
    from hypergauge.core.config.settings import Settings
    from hypergauge.core.files.run_folder import RunFolder
    from hypergauge.scheduler.profilers.live import profile_live

    settings = Settings.load()
    with primary(settings) as connection:
        chosen = select_run(connection, run)
        folder = RunFolder.find(settings.home, chosen.run_id)
        if chosen.status != "running":
            raise BadRequest(f"{chosen.label} is {chosen.status}: --seconds needs a run that runs")
        if folder is None:
            raise BadRequest(f"{chosen.label} runs on the host {chosen.host}: profile it there")
        profile_live(connection, folder, seconds, rate)


def _content(found: Content) -> dict[str, Any]:
    return {
        "run": found.run.full_label,
        "run_id": found.run.run_id,
        **{key: value for key, value in asdict(found.profile).items() if key != "run_id"},
        "entries": [asdict(entry) for entries in found.kinds.values() for entry in entries],
    }


def _show(found: Sequence[Content], top: int) -> None:
    from hypergauge.dashboards.terminal.profiles import profile_tables

    out = console()
    for one in found:
        if one.profile.problem is not None:
            warn(f"the report of {one.profile.profiler} is not in the database: {one.profile.problem}")
        for made in profile_tables(one, top, out.width):
            out.print(made)


def _show_difference(found: Sequence[Compared], top: int) -> None:
    from hypergauge.dashboards.terminal.profiles import comparison_table, verdict

    out = console()
    for one in found:
        for kind in one.kinds:
            if (made := comparison_table(one, kind, top, out.width)) is not None:
                out.print(made)
            out.print(verdict(one, kind))
