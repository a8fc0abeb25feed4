"""The commands ``schedule`` and ``run``."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from hypergauge.cli.common import asking_primary, console
from hypergauge.cli.running import plan, remote
from hypergauge.cli.running.progress import scheduling, settle
from hypergauge.cli.serving.stack import availability
from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest
from hypergauge.core.files.run_folder import RunFolder
from hypergauge.core.services import Stack
from hypergauge.core.terminal import Terminal
from hypergauge.gpu import inventory
from hypergauge.scheduler.executors.registry import LOCAL, load_executor
from hypergauge.scheduler.experiment.cells import Collocation
from hypergauge.scheduler.experiment.experiment_file import ExperimentFile
from hypergauge.scheduler.plan import checks
from hypergauge.scheduler.plan.collocation import collocation_problem
from hypergauge.scheduler.plan.plan import is_due
from hypergauge.scheduler.plan.policy import Policy
from hypergauge.scheduler.supervision import goes_on
from hypergauge.sql.runs.selection import select_run
from hypergauge.sql.server.database import Database

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypergauge.scheduler.events import Outcome
    from hypergauge.scheduler.executors.base import Executor

__all__ = ["register", "run_file"]

COOLDOWN_SECONDS = 300.0

Timeout = Annotated[float | None, typer.Option(help="Seconds after which a run is ended, with status timeout.")]
OutputLimit = Annotated[str | None, typer.Option(help="Limit of a run's output, such as 512MiB; 0 for none.")]


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command()(schedule)
    app.command(context_settings={"allow_interspersed_args": False})(run)


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
    retries: Annotated[int, typer.Option(help="Retries of a workload's failed runs.")] = 0,
    fail_fast: Annotated[
        bool, typer.Option("--fail-fast/--keep-going", help="End the schedule at the first failure, or keep going.")
    ] = False,
    repeat: Annotated[int, typer.Option(help="Repetitions of all workloads, in turn.")] = 1,
    cooldown: Annotated[
        bool,
        typer.Option("--cooldown", help="Wait before each workload until the machine is as it was before the first."),
    ] = False,
    cooldown_timeout: Annotated[
        float | None, typer.Option(help=f"Seconds to wait so at most, {COOLDOWN_SECONDS:g} by default.")
    ] = None,
    into: Annotated[bool, typer.Option("--into", help="Add to an experiment that belongs to another file.")] = False,
    output_limit: OutputLimit = None,
    executor: Annotated[str | None, typer.Option(help="Executor: 'local', 'slurm', or an installed one.")] = None,
    max_jobs: Annotated[
        int,
        typer.Option("--max-jobs", min=1, help="How many jobs an executor is given at once; 1 keeps the file's order."),
    ] = 1,
    from_run: Annotated[
        str | None, typer.Option("--from-run", help="Instead of a file: this run once more, from its record.")
    ] = None,
) -> None:
    """Run all rows of an experiment file that are still to do, workload by workload."""
    settings = Settings.load(output_limit=output_limit, executor=executor)
    if rerun not in (None, "failed", "all"):
        raise BadRequest(f"--rerun is 'failed' or 'all', not {rerun!r}")
    policy = Policy(
        timeout, workload_timeout, retries, fail_fast, repeat, _cooldown(cooldown, cooldown_timeout)
    ).validate()
    if from_run is not None:
        if file is not None or rerun or into or repeat != 1:
            raise BadRequest("--from-run repeats one run from its record, without a file, --rerun, --repeat or --into")
        if executor not in (None, LOCAL):
            raise BadRequest("--from-run repeats a run on this host, from its record there, and not with --executor")
        _repeat(settings, from_run, policy, show=dry_run)
        return
    if file is None:
        raise BadRequest("an experiment file is missing; `bench init` writes one, --from-run RUN repeats a run")
    elsewhere = load_executor(settings.executor)
    if not dry_run and _is_done(settings, file, rerun):
        _tidy(settings)
        _conclude_nothing()
        return
    checked = _checked(settings, file, policy, elsewhere)
    with Database(settings) as database:
        plan.refuse_foreign(database, checked, into)
        plan.check(settings, database, checked, rerun, repeat, show=dry_run, executor=elsewhere)
        if dry_run:
            return
    if elsewhere is None:
        outcomes = run_file(settings, checked, rerun=rerun, into=into, policy=policy)
    else:
        with remote.scheduling_elsewhere(settings, elsewhere, policy, max_jobs) as scheduler:
            outcomes = scheduler.run_file(checked, rerun=rerun, into=into)
    _conclude(checked, outcomes, repeat)


def _is_done(settings: Settings, path: Path, rerun: str | None) -> bool:
    """Return whether a file alone says that nothing is to be done: then nothing is started to say so.

    MLflow has what its runs left, or nobody on this host knows of it.
    """
    file, problems = ExperimentFile.parse(path)
    if problems or any(is_due(row, rerun) for row in file.rows):
        return False
    folders = [RunFolder(settings.runs_dir / row.run) for row in file.rows if row.run]
    return all(folder.delivered or folder.end() is None for folder in folders)


def _tidy(settings: Settings) -> None:
    """Stop a stack that was left by a command that was killed, unless runs of another one still need it."""
    stack = Stack(settings)
    if stack.services() and not any(goes_on(folder) for folder in RunFolder.all(settings.runs_dir)):
        stack.stop_unheld()


def _checked(settings: Settings, file: Path, policy: Policy, elsewhere: Executor | None) -> ExperimentFile:
    if elsewhere is not None:
        return remote.load(settings, elsewhere, file, policy)
    return checks.load(file, inventory(settings.simulate, settings.home), availability(settings), plan.reactions())


def _conclude(file: ExperimentFile, outcomes: Sequence[Outcome], repeat: int) -> None:
    """Say what can be done with what has run, and exit with 1 where some of it did not finish."""
    if not outcomes:
        _conclude_nothing()
    else:
        ids = list(dict.fromkeys(row.experiment for row in file.rows))
        words = ["bench compare", *map(str, ids), *(["--by row"] if repeat > 1 else [])]
        console().print(f"Compare with: {' '.join(words)}")
    if any(outcome.status != "finished" for outcome in outcomes):
        raise typer.Exit(1)


def _conclude_nothing() -> None:
    console().print("Nothing is left to do in this file; `--rerun failed` or `--rerun all` repeats runs.")


def _repeat(settings: Settings, selector: str, policy: Policy, *, show: bool) -> None:
    """Run a run of the past once more, from the directory that it was scheduled in."""
    from hypergauge.scheduler.provenance.repeated_run import RepeatedRun
    from hypergauge.sql.runs.runs import known_runs

    with asking_primary(settings) as connection:
        chosen = select_run(connection, selector)
        others = [one for one in known_runs(connection, chosen.experiment_id) if one.workload == chosen.workload]
    attempts = [one for one in others if one.position == chosen.position]
    recorded = RepeatedRun.read(chosen.label, RunFolder(settings.runs_dir / chosen.run_id), chosen.host)
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
            settle(scheduler.database, [outcome.run_id for outcome in outcomes])
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
        settle(scheduler.database, [outcome.run_id for outcome in outcomes])
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
    from hypergauge.scheduler.job import job_from_command

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
    with scheduling(settings, policy=policy, passes_on=True) as scheduler:
        outcome = scheduler.run_command(job, waits=False)
    _say_what_next(outcome)
    if outcome.status != "finished":
        raise typer.Exit(1)


def _say_what_next(outcome: Outcome) -> None:
    """Say what can be asked of a run, to whoever watches: neither a pipe nor a log wants to have it."""
    if sys.stderr.isatty():
        run = outcome.run_id[:8]
        asks = [f"bench logs {run}", f"bench highlights {run}"]
        if outcome.status == "finished":
            asks.insert(0, f"bench compare {run}")
        Terminal(stderr=True).print(f"Next: {', '.join(asks)}")
