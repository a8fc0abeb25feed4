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
    """Runner of jobs: a `Workload`. `began` is the release of its first run, in Unix seconds."""

    began: float | None

    def run(self, jobs: Sequence[Job], attached: Sequence[Job] = ()) -> list[Outcome]:
        """Run `jobs` and wait for the `attached` ones; return how each ended."""


def run_with_retries(
    policy: Policy,
    open_runner: Callable[[Policy, float | None], Runner],
    jobs: Sequence[Job],
    attached: Sequence[Job] = (),
    say: Callable[[str], None] = lambda _: None,
    why_not: Callable[[], str | None] = lambda: None,
) -> list[Outcome]:
    """Run the jobs of a workload, and those that failed again when all have ended, side by side with each other alone.

    Nothing is repeated once the time of the workload is over. With `Policy.fail_fast` a failure counts when nothing is
    left to repeat it.

    Parameters
    ----------
    open_runner
        Gives what runs jobs once, for the policy of this time and the moment at which the workload began, where it has.
    say
        Called with what people want to know.
    why_not
        Returns why nothing is to be repeated, ``None`` where nothing is in the way.

    Returns
    -------
    list of Outcome
        How the last attempt of each job ended.
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
            say("what failed is not repeated: the time of the workload is over")
            break
        if (reason := why_not()) is not None:
            say(f"what failed is not repeated: {reason}")
            break
        names = ", ".join(job.name for job in jobs)
        say(f"what failed is repeated: {names} (retry {policy.retries - left + 1} of {policy.retries})")
    return list(latest.values())


def _next_attempts(outcomes: Iterable[Outcome]) -> list[Job]:
    return [outcome.job.again() for outcome in outcomes if outcome.status in FAILURES]
