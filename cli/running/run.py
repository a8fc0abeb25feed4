"""Command ``run``."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from hypergauge.cli.common import warn
from hypergauge.cli.help import Commands
from hypergauge.cli.running.options import (
    QUIET_HOST_SECONDS,
    OutputLimit,
    QuietHost,
    QuietHostTimeout,
    Timeout,
    longest_wait,
)
from hypergauge.cli.running.progress import on_this_host
from hypergauge.core.config.settings import Settings
from hypergauge.core.system.foreground import Foreground
from hypergauge.core.terminal import Terminal
from hypergauge.gpu import inventory
from hypergauge.scheduler.plan.policy import FAILURES, Policy
from hypergauge.stack.closing_report import report_critical
from hypergauge.stack.experiment_checks import reactions
from hypergauge.stack.services.local_stack import availability

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypergauge.scheduler.events import Outcome

__all__ = ["register"]


def register(app: Commands) -> None:
    """Add the command to `app`."""
    app.command(
        context_settings={"allow_interspersed_args": False},
        examples={
            "bench run -- python train.py --epochs 3": "the command and its options",
            "bench run --devices 0 --name fast -- ./train.sh": "on one GPU, with a name",
            "bench run --repeat 5 -- ./train.sh": "five attempts, for means",
        },
    )(run)


def run(
    command: Annotated[list[str], typer.Argument(metavar="COMMAND", help="The command with its options, after --.")],
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Name of the run.")] = None,
    devices: Annotated[
        str | None,
        typer.Option(metavar="GPUS", help="GPUs, such as 0+1 or amd:0; by default those that the shell sees."),
    ] = None,
    collocation: Annotated[
        str,
        typer.Option(
            metavar="MODE",
            help="'MPS', 'MPS:NN' with NN percent of the threads, a MIG profile such as '3g.20gb', or '-' for neither.",
        ),
    ] = "-",
    environment: Annotated[
        str,
        typer.Option(
            metavar="ENV", help="'venv:PATH', 'conda:NAME', 'docker:IMAGE' or a name; by default the shell's."
        ),
    ] = "-",
    listeners: Annotated[
        str,
        typer.Option(metavar="NAMES", help="Exporters and profilers, as in a file: 'smi@100ms+perf', or 'none'."),
    ] = "",
    repeat: Annotated[int, typer.Option(metavar="N", help="Run it N times, one after the other.")] = 1,
    quiet_host: QuietHost = False,
    quiet_host_timeout: QuietHostTimeout = None,
    timeout: Timeout = None,
    output_limit: OutputLimit = None,
) -> None:
    """Run one command without a file; it is measured like any other run."""
    from hypergauge.scheduler.requests.command_line import command_line_job
    from hypergauge.scheduler.requests.single_run import run_command

    waits = longest_wait(quiet_host, quiet_host_timeout, QUIET_HOST_SECONDS)
    policy = Policy(timeout, repeat=repeat, quiet_host=waits).validate()
    settings = Settings.load(output_limit=output_limit)
    gpus = inventory(settings.simulate, settings.home)
    job = command_line_job(
        command, gpus, name=name, devices=devices, collocation=collocation, environment=environment, listeners=listeners,
        exporters=availability(settings) if listeners else None, notify=_notify,
    )  # fmt: skip
    reactions()  # the run's rules start later, and a bad bench.toml would fail there
    with on_this_host(settings, copies_output=True) as executor:
        foreground = Foreground.of_this_command(repeat)
        if repeat > 1 and foreground.is_read_once:
            warn("Standard input is a pipe, which only the first attempt can read; a file is read by each.")
        if source := foreground.source:
            job = replace(job, request={**job.request, "stdin": source})
        workload, outcomes = run_command(executor, job, policy, waits=False, foreground=foreground)
        report_critical(executor, outcomes)
    _say_what_next(workload, outcomes)
    if status := _exit_status(outcomes):
        raise typer.Exit(status)


def _say_what_next(workload: str, outcomes: Sequence[Outcome]) -> None:
    """Show the next commands, but only on a terminal."""
    if sys.stderr.isatty():
        last = outcomes[-1]
        run = last.run_id[:8]
        commands = [f"bench logs {run}", f"bench highlights {run}"]
        if last.status == "finished":
            commands.insert(0, f"bench compare {run if len(outcomes) == 1 else f'{workload} --by row'}")
        Terminal(stderr=True).print(f"Next: {', '.join(commands)}")


def _notify(line: str) -> None:
    Terminal(stderr=True, soft_wrap=True).print(escape(line))


def _exit_status(outcomes: Sequence[Outcome]) -> int:
    """Return the exit status of the last attempt that did not succeed, else 0.

    It is that of the script, as with `time` and `srun`; 1 if nobody saw it, or if a run failed in spite of it.
    """
    statuses = [
        outcome.exit_code or int(outcome.exit_code is None or outcome.status in FAILURES) for outcome in outcomes
    ]
    return next((status for status in reversed(statuses) if status), 0)
