"""Command ``calibrate``."""

from __future__ import annotations

from dataclasses import asdict
from random import SystemRandom
from typing import TYPE_CHECKING, Annotated

import typer

from hypergauge.cli.common import Json, as_json, console
from hypergauge.cli.help import Commands
from hypergauge.cli.running.progress import on_this_host
from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest
from hypergauge.core.terminal import Terminal
from hypergauge.gpu import inventory
from hypergauge.stack.services.local_stack import availability

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypergauge.insight.calibration import Cost
    from hypergauge.scheduler.job import Job

__all__ = ["register"]


def register(app: Commands) -> None:
    """Add the command to `app`."""
    app.command(
        context_settings={"allow_interspersed_args": False},
        examples={
            "bench calibrate -- python train.py": "each exporter, and all",
            "bench calibrate --listeners smi@100ms -- ./train.sh": "one choice",
            "bench calibrate --within 0.2 -- ./train.sh": "smaller intervals",
        },
    )(calibrate)


def calibrate(
    command: Annotated[list[str], typer.Argument(metavar="COMMAND", help="A short training, after --.")],
    listeners: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES",
            help="Exporters to compare with none, as in a file: 'smi@100ms'. By default each that works here, and all. Repeatable.",
        ),
    ] = None,
    devices: Annotated[
        str | None,
        typer.Option(metavar="GPUS", help="GPUs, such as 0+1 or amd:0; by default those that the shell sees."),
    ] = None,
    minutes: Annotated[
        float, typer.Option(metavar="MINUTES", min=0, help="End after this time, and two repetitions.")
    ] = 30.0,
    within: Annotated[
        float,
        typer.Option(metavar="PERCENT", min=0, help="Repeat as often as intervals this small need, on either side."),
    ] = 0.5,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Seed of the order; by default random.")] = None,
    json: Json = False,
) -> None:
    """Measure what exporters cost a training on this host, and store it."""
    settings = Settings.load()
    exporters = availability(settings)
    if listeners == ["none"]:
        raise BadRequest("--listeners none has nothing to compare with: it is always among the choices")
    choices = listeners or [*(name for name, problem in exporters.items() if problem is None), ""]
    jobs = _jobs(settings, command, choices, devices, exporters)
    seed = SystemRandom().randrange(10**6) if seed is None else seed
    # With scipy: slow to import.
    from hypergauge.stack.calibrating import Limits, calibrate

    said = Terminal(stderr=True)
    said.print(f"The order has the seed {seed}.")
    limits = Limits(60 * minutes, within / 100)
    with on_this_host(settings, quiet=json) as executor:
        workload, found = calibrate(executor, jobs, limits, seed=seed, report=said.print)
    if json:
        as_json({"workload": workload, "seed": seed, "costs": [asdict(one) for one in found]})
    else:
        _show(found, within)
        console().print(f"Compare the runs with: bench compare {workload} --by row")


def _jobs(
    settings: Settings, command: Sequence[str], choices: Sequence[str], devices: str | None,
    exporters: Mapping[str, str | None],
) -> dict[str, Job]:  # fmt: skip
    from hypergauge.insight.calibration import BASELINE
    from hypergauge.scheduler.requests.command_line import command_line_job

    gpus = inventory(settings.simulate, settings.home)
    jobs = {}
    for choice in dict.fromkeys([BASELINE, *choices]):
        job = command_line_job(
            command, gpus, name=choice or "all", devices=devices, listeners=choice, exporters=exporters
        )
        if job.profilers:
            raise BadRequest(f"--listeners: {'+'.join(job.profilers)} profiles the run, which is no cost of exporters")
        jobs[choice] = job
    return jobs


def _show(found: Sequence[Cost], within: float) -> None:
    from hypergauge.dashboards.terminal.fitting import Field, fitted
    from hypergauge.dashboards.terminal.formatting import duration, value_text

    out = console()
    out.print(
        fitted(
            [
                Field("listeners", [one.listeners or "all" for one in found]),
                Field(">runs", [str(one.repetitions) for one in found]),
                Field(f">{found[0].per}", [duration(one.seconds) for one in found], 1),
                Field(">slow-down (95%)", [_interval(one) for one in found]),
                Field(">CPU", [f"{one.cpu_share:.2%}" for one in found]),
                Field(">memory", [value_text("_bytes", one.memory_bytes) for one in found], 0),
            ],
            out.width,
        )
    )
    if wide := [one.listeners or "all" for one in found if one.half_width > within / 100]:
        out.print(f"Not within {within:g}%: {', '.join(wide)}. More --minutes narrow the intervals.")


def _interval(one: Cost) -> str:
    if one.slowdown is None:
        return "-"
    return f"{one.slowdown.value:.1%} ({one.slowdown.low:.1%} to {one.slowdown.high:.1%})"
