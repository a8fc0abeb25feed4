"""Command ``schedule``."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from hypergauge.cli.common import console, primary
from hypergauge.cli.help import Commands
from hypergauge.cli.running.options import (
    QUIET_HOST_SECONDS,
    OutputLimit,
    QuietHost,
    QuietHostTimeout,
    Timeout,
    longest_wait,
)
from hypergauge.cli.running.plan_tables import show_partitions, show_plan
from hypergauge.cli.running.progress import interrupted, on_batch_system, on_this_host
from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest
from hypergauge.core.listing import counted
from hypergauge.gpu import inventory
from hypergauge.scheduler.executors.base import LOCAL
from hypergauge.scheduler.executors.registry import load_batch_system
from hypergauge.scheduler.experiment.experiment_file import ExperimentFile
from hypergauge.scheduler.plan.exporters import shown_choices
from hypergauge.scheduler.plan.finished import is_finished
from hypergauge.scheduler.plan.policy import Policy
from hypergauge.sql.runs.selection import select_run
from hypergauge.sql.server.database import Database
from hypergauge.stack.closing_report import report_critical, report_other_programs
from hypergauge.stack.experiment_checks import checked_file, reactions
from hypergauge.stack.services.local_stack import availability
from hypergauge.stack.services.shutdown import shut_down_unused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypergauge.scheduler.events import Outcome
    from hypergauge.scheduler.executors.base import BatchSystem, Executor

__all__ = ["register", "run_file"]

COOLDOWN_SECONDS = 300.0
_DETACH = "--detach"


def register(app: Commands) -> None:
    """Add the command to `app`."""
    app.command(
        examples={
            "bench schedule experiments.csv": "run what is still to do",
            "bench schedule experiments.csv --rerun failed": "and what has failed",
            "bench schedule experiments.csv --dry-run": "only show the plan",
        }
    )(schedule)


def schedule(
    file: Annotated[Path | None, typer.Argument(metavar="FILE.csv", help="The experiment file.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be run, and run nothing.")] = False,
    rerun: Annotated[
        str | None,
        typer.Option(metavar="failed|all", help="Repeat runs that failed, timed out or were stopped; or all."),
    ] = None,
    timeout: Timeout = None,
    workload_timeout: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="End all runs of a workload after this time, with status timeout."),
    ] = None,
    retries: Annotated[int, typer.Option(metavar="N", help="Retry the failed runs of a workload up to N times.")] = 0,
    fail_fast: Annotated[
        bool,
        typer.Option(
            "--fail-fast/--keep-going",
            help="End the schedule at the first failure, or continue with the next workload.",
        ),
    ] = False,
    repeat: Annotated[int, typer.Option(metavar="N", help="Run all workloads in turn, N times.")] = 1,
    cooldown: Annotated[
        bool,
        typer.Option(
            "--cooldown", help="Wait before each workload until the machine is as cool and idle as before the first."
        ),
    ] = False,
    cooldown_timeout: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help=f"Longest wait of --cooldown; by default {COOLDOWN_SECONDS:g}."),
    ] = None,
    quiet_host: QuietHost = False,
    quiet_host_timeout: QuietHostTimeout = None,
    into: Annotated[bool, typer.Option("--into", help="Add to an experiment that belongs to another file.")] = False,
    output_limit: OutputLimit = None,
    executor: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Run on this host ('local'), as jobs of 'slurm', or with an installed executor."
        ),
    ] = None,
    max_jobs: Annotated[
        int,
        typer.Option("--max-jobs", metavar="N", min=1, help="Have N jobs at once in Slurm; 1 keeps the file's order."),
    ] = 1,
    detach: Annotated[bool, typer.Option(_DETACH, help="Check the file, and go on in the background.")] = False,
    from_run: Annotated[
        str | None,
        typer.Option("--from-run", metavar="RUN", help="Repeat this run from its manifest, instead of a file."),
    ] = None,
) -> None:
    """Run all rows of an experiment file that are still to do, workload by workload."""
    settings = Settings.load(output_limit=output_limit, executor=executor)
    if rerun not in (None, "failed", "all"):
        raise BadRequest(f"--rerun is 'failed' or 'all', not {rerun!r}")
    policy = Policy(
        timeout, workload_timeout, retries, fail_fast, repeat, longest_wait(cooldown, cooldown_timeout, COOLDOWN_SECONDS),
        longest_wait(quiet_host, quiet_host_timeout, QUIET_HOST_SECONDS),
    ).validate()  # fmt: skip
    if from_run is not None:
        _check_repetition(alone=file is None and not (rerun or into or detach or repeat != 1), executor=executor)
        _repeat(settings, from_run, policy, show=dry_run)
        return
    if file is None:
        raise BadRequest("an experiment file is missing; `bench init` writes one, --from-run RUN repeats a run")
    system = load_batch_system(settings.executor)
    if not dry_run and is_finished(settings, file, rerun):
        shut_down_unused(settings)
        _conclude_nothing()
        return
    checked = checked_file(settings, file, policy, system)
    _preview(settings, checked, rerun, repeat, system, into=into, show=dry_run)
    if dry_run:
        return
    if detach:
        _detach(settings, checked)
        return
    outcomes = run_file(settings, checked, policy, rerun=rerun, into=into, system=system, max_jobs=max_jobs)
    _conclude(checked, outcomes, repeat)


def _check_repetition(*, alone: bool, executor: str | None) -> None:
    """Refuse options that contradict ``--from-run``."""
    if not alone:
        raise BadRequest(
            "--from-run repeats one run from its manifest: leave out the file, --rerun, --repeat, --into and --detach"
        )
    if executor not in (None, LOCAL):
        raise BadRequest("--from-run repeats a run on this host, where its manifest is: leave out --executor")


def _preview(
    settings: Settings, file: ExperimentFile, rerun: str | None, repeat: int, system: BatchSystem | None, *,
    into: bool, show: bool,
) -> None:  # fmt: skip
    """Check the plan before anything starts; with `show`, show it, and do not wait for a database that is away."""
    from hypergauge.scheduler.requests.preview import check_owner, preview
    from hypergauge.sql.server.session import LONGEST_OUTAGE, Session

    with (
        interrupted(),
        contextlib.closing(Database(settings)) as database,
        contextlib.closing(Session(database, 0 if show else LONGEST_OUTAGE, _warn)) as session,
    ):
        session.open()
        if not into:
            check_owner(session, file)
        found = preview(settings, session, file, rerun, system, _notify, _warn)
    if show:
        show_plan(found.workloads, repeat, found.inventory)
        show_partitions(found.partitions)


def _notify(line: str) -> None:
    console().print(escape(line), soft_wrap=True)


def _warn(line: str) -> None:
    console().print(f"[yellow]![/] {escape(line)}", soft_wrap=True)


def _detach(settings: Settings, file: ExperimentFile) -> None:
    """Start this command again in the background."""
    from hypergauge.stack.background import in_background

    experiments = {row.experiment for row in file.rows}
    started = in_background(settings, experiments, [word for word in sys.argv[1:] if word != _DETACH])
    if started.status is not None:
        console().print(escape(started.output), soft_wrap=True, end="")
        raise typer.Exit(started.status)
    first = min(experiments)
    console().print(f"Runs in the background: bench watch {first} shows it, bench stop {first} ends it.")
    console().print(escape(f"Its output is in {started.log}"), soft_wrap=True)


def _conclude(file: ExperimentFile, outcomes: Sequence[Outcome], repeat: int) -> None:
    """Show the next command, and exit with 1 if a run did not finish."""
    if not outcomes:
        _conclude_nothing()
    else:
        ids = list(dict.fromkeys(row.experiment for row in file.rows))
        command = ["bench compare", *map(str, ids), *(["--by row"] if repeat > 1 else [])]
        console().print(f"Compare with: {' '.join(command)}")
    if any(outcome.status != "finished" for outcome in outcomes):
        raise typer.Exit(1)


def _conclude_nothing() -> None:
    console().print("Nothing is left to do in this file; `--rerun failed` or `--rerun all` repeats runs.")


def _repeat(settings: Settings, selector: str, policy: Policy, *, show: bool) -> None:
    """Repeat a past run in the directory from which it was scheduled."""
    from hypergauge.scheduler.requests.repetition import Repetition

    with primary(settings) as connection:
        chosen = select_run(connection, selector)
        repetition = Repetition.of(connection, settings, chosen)
    with contextlib.chdir(repetition.earlier.directory):
        job = repetition.job(inventory(settings.simulate, settings.home), availability(settings), reactions())
        console().print(f"{chosen.label}@{job.attempt} {escape(job.name)}: {escape(job.shown_command)}")
        if job.exporters is not None:
            console().print(f"It is measured by {shown_choices([job.exporters], settings.interval)}")
        if show:
            return
        if repetition.others:
            _warn(f"It shared its workload with {counted(repetition.others, 'other run')}, not repeated here.")
        with on_this_host(settings) as executor:
            outcomes = repetition.run(executor, job, policy)
            _settle(executor, outcomes)
    if any(outcome.status != "finished" for outcome in outcomes):
        raise typer.Exit(1)


def run_file(
    settings: Settings,
    file: ExperimentFile,
    policy: Policy | None = None,
    *,
    rerun: str | None = None,
    into: bool = False,
    system: BatchSystem | None = None,
    max_jobs: int = 1,
) -> list[Outcome]:
    """Run the due rows of a checked file, on this host or through a batch system."""
    from hypergauge.scheduler import schedule

    with on_this_host(settings) if system is None else on_batch_system(settings, system, max_jobs) as executor:
        outcomes = schedule.run_file(executor, file, policy, rerun=rerun, into=into)
        _settle(executor, outcomes)
    return outcomes


def _settle(executor: Executor, outcomes: Sequence[Outcome]) -> None:
    """Wait for the last samples of runs, and report what their results must not hide."""
    executor.settle([outcome.run_id for outcome in outcomes])
    report_critical(executor, outcomes)
    report_other_programs(executor, outcomes)
