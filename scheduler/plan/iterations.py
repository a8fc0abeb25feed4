"""Iterations over a file's workloads by repetition (1, 2, 3, 1, 2, 3), so that drift affects all workloads equally."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from hypergauge.scheduler.events import Outcome
from hypergauge.scheduler.job import Job
from hypergauge.scheduler.plan.plan import PlannedWorkload

__all__ = ["Iteration", "JobsToRun", "iterations", "next_attempts"]


@dataclass(frozen=True, slots=True)
class Iteration:
    """One workload in one repetition. `repetition` counts from 1; `left` is the number of later iterations."""

    workload: PlannedWorkload
    repetition: int
    left: int

    @property
    def label(self) -> str:
        """Selector of the workload: ``20/1``."""
        return f"{self.workload.experiment}/{self.workload.workload}"


@dataclass(frozen=True, slots=True)
class JobsToRun:
    """Jobs of an iteration: to start, to attach to, and the next attempts of rows whose runs have already ended."""

    start: list[Job] = field(default_factory=list)
    attach: list[Job] = field(default_factory=list)
    settled: list[Job] = field(default_factory=list)


def iterations(workloads: Sequence[PlannedWorkload], repeat: int) -> Iterator[Iteration]:
    """Yield all workloads in file order, `repeat` times."""
    order = [(repetition, workload) for repetition in range(1, repeat + 1) for workload in workloads]
    for number, (repetition, workload) in enumerate(order, 1):
        yield Iteration(workload, repetition, len(order) - number)


def next_attempts(outcomes: Iterable[Outcome], others: Iterable[Job] = ()) -> list[Job]:
    """Return the jobs of a workload's next repetition, by position.

    Stopped jobs are left out, because a user ended them.

    Parameters
    ----------
    outcomes
        Outcome of the last attempt of each job of this repetition.
    others
        Jobs of the workload that had nothing left to run in this repetition.
    """
    jobs = [outcome.job.next_attempt() for outcome in outcomes if outcome.status != "stopped"]
    return sorted([*jobs, *others], key=lambda job: job.position)
