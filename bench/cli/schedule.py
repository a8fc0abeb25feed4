"""Commands that run things: ``schedule``, ``run``, ``stop``."""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from bench.cli import plan
from bench.cli.common import console, reading
from bench.cli.stack import LocalStack, availability, local_stack
from bench.config import Settings
from bench.errors import BadRequest, BenchError
from bench.gpu import inventory
from bench.runfolder import RunFolder
from dashboards.progress import Progress
from scheduler import checks
from scheduler.cells import Collocation
from scheduler.collocation import collocation_problem
from scheduler.experiment_file import ExperimentFile
from scheduler.policy import Policy
from scheduler.supervision import ask_to_stop
from sql.database import Database
from sql.selection import select_run, select_runs
from sql.summaries import Live, live_figures, summarised

if TYPE_CHECKING:
    from scheduler.events import Event, Outcome
    from scheduler.schedule import Scheduler

__all__ = ["register", "run_file", "scheduling"]

# How long to wait for the collector to have written what the runs had to say last.
_SETTLE_SECONDS = 10.0
COOLDOWN_SECONDS = 300.0

Timeout = Annotated[float | None, typer.Option(help="Seconds after which a run is ended, with status timeout.")]
OutputLimit = Annotated[
    str | None, typer.Option(help="How much is kept of a run's output, such as 512MiB; 0 for all of it.")
]


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command()(schedule)
    app.command(context_settings={"allow_interspersed_args": False})(run)
    app.command()(stop)


def schedule(
    file: Annotated[Path | None, typer.Argument(help="The experiment file, CSV.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be run, and run nothing.")] = False,
    rerun: Annotated[
        str | None, typer.Option(help="Run again what 'failed' (or timed out, or was stopped), or 'all'.")
    ] = None,
    timeout: Timeout = None,
    workload_timeout: Annotated[
        float | None, typer.Option(help="Seconds after which all runs of a workload are ended, with status timeout.")
    ] = None,
    retries: Annotated[int, typer.Option(help="How often the failed runs of a workload are repeated.")] = 0,
    fail_fast: Annotated[
        bool, typer.Option("--fail-fast/--keep-going", help="Whether the first failure ends the schedule.")
    ] = False,
    repeat: Annotated[int, typer.Option(help="How often each workload is run: all of them in turn, then again.")] = 1,
    cooldown: Annotated[
        bool,
        typer.Option("--cooldown", help="Wait before each workload until the machine is as it was before the first."),
    ] = False,
    cooldown_timeout: Annotated[
        float | None, typer.Option(help=f"Seconds to wait so at most, {COOLDOWN_SECONDS:g} by default.")
    ] = None,
    into: Annotated[bool, typer.Option("--into", help="Add to an experiment that belongs to another file.")] = False,
    output_limit: OutputLimit = None,
    from_run: Annotated[
        str | None, typer.Option("--from-run", help="Instead of a file: this run once more, from its record.")
    ] = None,
) -> None:
    """Run every row of an experiment file that is still to do, workload by workload."""
    settings = Settings.load(output_limit=output_limit)
    if rerun not in (None, "failed", "all"):
        raise BadRequest(f"--rerun is 'failed' or 'all', not {rerun!r}")
    policy = Policy(
        timeout, workload_timeout, retries, fail_fast, repeat, _cooldown(cooldown, cooldown_timeout)
    ).validate()
    if from_run is not None:
        if file is not None or rerun or into or repeat != 1:
            raise BadRequest("--from-run repeats one run from its record, without a file, --rerun, --repeat or --into")
        _repeat(settings, from_run, policy, show=dry_run)
        return
    if file is None:
        raise BadRequest("an experiment file is missing; `bench init` writes one, --from-run RUN repeats a run")
    gpus = inventory(settings.simulate, settings.home)
    checked = checks.load(file, gpus, availability(settings), plan.reactions())
    with Database(settings) as database:
        plan.refuse_foreign(database, checked, into)
        plan.check(settings, database, checked, gpus, rerun, repeat, show=dry_run)
        if dry_run:
            return
    outcomes = run_file(settings, checked, rerun=rerun, into=into, policy=policy)
    if not outcomes:
        console().print("Nothing is left to do in this file; `--rerun failed` or `--rerun all` repeats runs.")
    else:
        ids = list(dict.fromkeys(row.experiment for row in checked.rows))
        words = ["bench compare", *map(str, ids), *(["--by row"] if repeat > 1 else [])]
        console().print(f"Compare with: {' '.join(words)}")
    if any(outcome.status != "finished" for outcome in outcomes):
        raise typer.Exit(1)


def _repeat(settings: Settings, selector: str, policy: Policy, *, show: bool) -> None:
    """Run a run of the past once more, from the directory that it was scheduled in."""
    from scheduler.recorded import RecordedRun
    from sql.runs import known_runs

    with reading(settings) as connection:
        chosen = select_run(connection, selector)
        others = [one for one in known_runs(connection, chosen.experiment_id) if one.workload == chosen.workload]
    attempts = [one for one in others if one.position == chosen.position]
    recorded = RecordedRun.read(chosen.label, RunFolder(settings.runs_dir / chosen.run_id), chosen.host)
    [previous] = [one for one in attempts if one.run_id == chosen.run_id]
    with contextlib.chdir(recorded.directory):
        gpus = inventory(settings.simulate, settings.home)
        attempt = max(one.attempt for one in attempts) + 1
        job = recorded.job(gpus, availability(settings), previous, attempt, plan.reactions())
        console().print(f"{chosen.label}@{job.attempt} {escape(job.name)}: {escape(job.shown_command)}")
        if show:
            return
        beside = len({one.position for one in others}) - 1
        if beside:
            what = "another run" if beside == 1 else f"{beside} other runs"
            console().print(
                f"[yellow]![/] It had {what} beside it, which {'is' if beside == 1 else 'are'} not repeated."
            )
        with scheduling(settings, policy=policy) as scheduler:
            outcomes = scheduler.run_again(recorded, job, chosen.experiment_id, chosen.workload)
            _settle(scheduler.database, [outcome.run_id for outcome in outcomes])
    if any(outcome.status != "finished" for outcome in outcomes):
        raise typer.Exit(1)


def _cooldown(asked: bool, limit: float | None) -> float | None:
    return COOLDOWN_SECONDS if asked and limit is None else limit


def run_file(
    settings: Settings,
    file: ExperimentFile,
    *,
    rerun: str | None = None,
    into: bool = False,
    policy: Policy | None = None,
    quiet: bool = False,
) -> list[Outcome]:
    """Run what is to do in a checked file, on the local stack."""
    with scheduling(settings, policy=policy, quiet=quiet) as scheduler:
        outcomes = scheduler.run_file(file, rerun=rerun, into=into)
        _settle(scheduler.database, [outcome.run_id for outcome in outcomes])
    return outcomes


def run(
    command: Annotated[list[str], typer.Argument(metavar="COMMAND...", help="The command, behind --.")],
    name: Annotated[str | None, typer.Option(help="A name for people.")] = None,
    devices: Annotated[str | None, typer.Option(help="GPUs such as 0+1; by default those that the shell sees.")] = None,
    collocation: Annotated[str, typer.Option(help="MPS, MPS:NN or a MIG profile such as 3g.20gb.")] = "-",
    timeout: Timeout = None,
    output_limit: OutputLimit = None,
) -> None:
    """Run one command without a file; it is measured like any other run."""
    from scheduler.job import job_from_command

    policy = Policy(timeout).validate()
    settings = Settings.load(output_limit=output_limit)
    gpus = inventory(settings.simulate, settings.home)
    words = [word for word in (devices or "").split("+") if word]
    chosen = None if devices is None else tuple(gpus.find(word) for word in words)
    wanted = Collocation.parse(collocation)
    if wanted.kind != "shared" and not words:
        raise BadRequest(f"--collocation {wanted} needs --devices")
    if problem := collocation_problem(wanted, words, chosen or ()):
        raise BadRequest(f"--collocation: {problem}")
    plan.reactions()
    job = job_from_command(command, name=name, devices=chosen, collocation=wanted)
    with scheduling(settings, policy=policy) as scheduler:
        outcome = scheduler.run_command(job)
        _settle(scheduler.database, [outcome.run_id])
    if outcome.status != "finished":
        raise typer.Exit(1)


def stop(selector: Annotated[str, typer.Argument(help="A run or a workload.")]) -> None:
    """End runs, with everything they started, and say so in their status."""
    settings = Settings.load()
    with reading(settings) as connection:
        running = [one for one in select_runs(connection, [selector]) if one.status == "running"]
    if not running:
        raise BadRequest(f"nothing of {selector} is running")
    for one in running:
        if one.host != platform.node():
            raise BadRequest(f"run {one.label} goes on at host {one.host}; stop it there")
        if not ask_to_stop(RunFolder(settings.runs_dir / one.run_id)):
            raise BadRequest(f"run {one.label} has lost its supervisor; `bench schedule` on its file ends it")
        console().print(f"{one.label} {escape(one.name)} is asked to stop")
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and any(
        RunFolder(settings.runs_dir / one.run_id).end() is None for one in running
    ):
        time.sleep(0.1)


@contextlib.contextmanager
def scheduling(settings: Settings, *, policy: Policy | None = None, quiet: bool = False) -> Iterator[Scheduler]:
    """Provide a scheduler on the local stack, with its progress shown."""
    from scheduler.schedule import Scheduler
    from scheduler.tracking import Tracking  # a second for MLflow, while the stack comes up anyway

    with contextlib.ExitStack() as stack:
        stack.enter_context(_interrupted())
        stack.enter_context(_surviving_the_terminal())
        progress = stack.enter_context(Progress(quiet=quiet))
        local = stack.enter_context(local_stack(settings, progress.say))
        progress.live = lambda ids: _live(local, ids)
        yield Scheduler(
            database=local.database,
            settings=settings,
            tracking=Tracking(local.tracking_uri),
            inventory=inventory(settings.simulate, settings.home),
            report=lambda event: _show(progress, event),
            policy=policy or Policy(),
        )


@contextlib.contextmanager
def _interrupted() -> Iterator[None]:
    """Turn Ctrl-C, with which all has been stopped in order by now, into an exit status: something did not finish."""
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Exit(1) from None


@contextlib.contextmanager
def _surviving_the_terminal() -> Iterator[None]:
    """Go on when the terminal is closed, and write to nowhere from then on."""
    terminals = [descriptor for descriptor in (0, 1, 2) if os.isatty(descriptor)]  # once closed, it is none any more

    def let_go(*_: object) -> None:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in terminals:
            os.dup2(nowhere, descriptor)
        os.close(nowhere)

    before = signal.signal(signal.SIGHUP, let_go)  # a handler, not SIG_IGN: that would be inherited by every run
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


def _show(progress: Progress, event: Event) -> None:
    if event.kind in ("started", "attached"):
        progress.started(event.run_id, event.label, event.name, attached=event.kind == "attached")
    elif event.kind in ("ended", "lost"):
        progress.ended(event.run_id, event.label, event.name, event.status, event.seconds, event.message)
    elif event.kind == "note":
        progress.say(escape(f"{event.label} {event.message}".strip()))
    else:
        progress.say(f"[yellow]![/] {event.label} {escape(event.message)}")


def _live(local: LocalStack, run_ids: Sequence[str]) -> dict[str, Live]:
    try:
        with local.database.session(read_only=True) as connection:
            return live_figures(connection, run_ids)
    except BenchError:
        return {}


def _settle(database: Database, run_ids: Sequence[str]) -> None:
    """Wait until the collector has written what these runs had to say last."""
    deadline = time.monotonic() + _SETTLE_SECONDS
    with database.session() as connection:
        while not summarised(connection, run_ids) and time.monotonic() < deadline:
            time.sleep(0.1)
