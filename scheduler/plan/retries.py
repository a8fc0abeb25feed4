"""Retries of failed runs, as the next attempts at their positions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from hypergauge.scheduler.events import Outcome
from hypergauge.scheduler.job import Job
from hypergauge.scheduler.plan.policy import FAILURES, Policy

__all__ = ["run_with_retries"]


class Runner(Protocol):
    """Runner of jobs, such as `Workload`. `began` is the release of its first run, in Unix seconds."""

    began: float | None

    def run(self, jobs: Sequence[Job], attached: Sequence[Job] = ()) -> list[Outcome]:
        """Run `jobs`, wait for the `attached` ones, and return the outcome of each."""


def run_with_retries(
    policy: Policy,
    open_runner: Callable[[Policy, float | None], Runner],
    jobs: Sequence[Job],
    attached: Sequence[Job] = (),
    notify: Callable[[str], None] = lambda _: None,
    why_not: Callable[[], str | None] = lambda: None,
) -> list[Outcome]:
    """Run the jobs of a workload; when all have ended, retry the failed ones concurrently.

    Retries stop at the workload's timeout. `Policy.fail_fast` applies to the last attempt only.

    Parameters
    ----------
    open_runner
        Function that returns the runner of one attempt, given its policy and the begin of the workload, if any.
    notify
        Receiver of messages for users.
    why_not
        Function that returns the reason against a retry; ``None`` if there is none.

    Returns
    -------
    list of Outcome
        Outcome of the last attempt of each job.
    """
    latest: dict[int, Outcome] = {}
    began: float | None = None
    for left in range(policy.retries, -1, -1):
        runner = open_runner(replace(policy, fail_fast=policy.fail_fast and left == 0), began)
        for outcome in runner.run(jobs, attached):
            latest[outcome.job.position] = outcome
        began = runner.began
        jobs, attached = _next_attempts(latest.values()), ()
        if not left or not jobs:
            break
        if began is not None and policy.workload_timeout is not None and time.time() >= began + policy.workload_timeout:
            notify("failed runs are not repeated: the workload has reached its timeout")
            break
        if (reason := why_not()) is not None:
            notify(f"failed runs are not repeated: {reason}")
            break
        names = ", ".join(job.name for job in jobs)
        notify(f"failed runs are repeated: {names} (retry {policy.retries - left + 1} of {policy.retries})")
    return list(latest.values())


def _next_attempts(outcomes: Iterable[Outcome]) -> list[Job]:
    return [outcome.job.next_attempt() for outcome in outcomes if outcome.status in FAILURES]
