"""Single runs on this host: a command line, and the repetition of an earlier run."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from hypergauge.core.system.foreground import Foreground
from hypergauge.scheduler.events import Event, Outcome
from hypergauge.scheduler.executors.local import LocalExecutor
from hypergauge.scheduler.job import Job
from hypergauge.scheduler.plan.plan import PlannedWorkload
from hypergauge.scheduler.plan.policy import Policy
from hypergauge.scheduler.plan.retries import run_with_retries
from hypergauge.scheduler.provenance.manifest import differences
from hypergauge.scheduler.provenance.repeated_run import RepeatedRun
from hypergauge.sql.runs import experiments, runs
from hypergauge.sql.server.session import Session

__all__ = ["repeat_run", "run_command"]

_NAME = "bench run"


def run_command(
    executor: LocalExecutor,
    job: Job,
    policy: Policy | None = None,
    *,
    waits: bool = True,
    foreground: Foreground | None = None,
) -> tuple[str, list[Outcome]]:
    """Run one command as a workload of its own, in the experiment of the command line.

    `Policy.repeat` repeats it: one attempt after the other, until a user stops one. Unless the command `waits`, the
    supervisor of the last one delivers its results and the backlog of earlier runs. An earlier one delivers before the
    next starts, so that it does not disturb it. With a `foreground`, the runs get this command's standard input and Ctrl-C.

    Returns
    -------
    workload
        Selector of the workload: ``1000000/1``.
    outcomes
        Outcome of each attempt.
    """
    policy = policy or Policy()
    outcomes: list[Outcome] = []
    with _session(executor) as session:
        executor.clear_devices(session)
        experiment, workload = session(experiments.next_command_workload)
        if waits:
            executor.recover(session, experiment)
        if policy.repeat > 1:
            session.lock(partial(experiments.lock_command, workload=workload))
        planned = PlannedWorkload(experiment, workload, ())
        executor.begin(session, [], policy)
        for left in reversed(range(policy.repeat)):
            executor.check_host(session, f"{experiment}/{workload}", [job])
            opened = executor.workload(planned, _NAME, policy)
            opened.delivers, opened.foreground = waits or left > 0, foreground
            if foreground is not None:
                foreground.rewind()
            outcomes += opened.run([job])
            if outcomes[-1].status == "stopped":
                break
            job = job.next_attempt()
    return f"{experiment}/{workload}", outcomes


def repeat_run(
    executor: LocalExecutor,
    earlier: RepeatedRun,
    job: Job,
    experiment: int,
    workload: int,
    policy: Policy | None = None,
) -> list[Outcome]:
    """Run the next attempt of an earlier run; report what differs from its manifest."""
    warn = partial(_warn, executor, earlier.label)
    planned = PlannedWorkload(experiment, workload, ())
    name = Path(earlier.content["request"].get("file", _NAME)).stem
    with _session(executor) as session:
        if experiment == experiments.COMMAND_EXPERIMENT:
            session.lock(partial(experiments.lock_command, workload=workload))
        else:
            session.lock(partial(experiments.lock_experiment, experiment=experiment))
        known = session(runs.known_runs, experiment)  # read under the lock: another command may have added an attempt
        attempts = [one.attempt for one in known if (one.workload, one.position) == (workload, job.position)]
        job = replace(job, attempt=max(attempts, default=0) + 1)
        executor.clear_devices(session)
        if source := earlier.content["request"].get("stdin"):
            warn(f"its standard input was {source}, and a repetition has none")
        for difference in differences(earlier.files, executor.manifest_writer.begin([job]).files(job)):
            warn(difference)
        executor.begin(session, [], policy or Policy())
        executor.check_host(session, earlier.label, [job])
        return run_with_retries(policy or Policy(), partial(executor.workload, planned, name), [job], [], warn)


def _session(executor: LocalExecutor) -> Session:
    return Session(executor.database, notify=partial(_warn, executor, ""))


def _warn(executor: LocalExecutor, label: str, message: str) -> None:
    executor.report(Event("warning", label, message=message))
