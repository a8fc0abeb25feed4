"""Repetition of a file's workloads in turn (1, 2, 3, 1, 2, 3), so that drift affects all alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from hypergauge.scheduler.events import Outcome
from hypergauge.scheduler.job import Job
from hypergauge.scheduler.plan.plan import PlannedWorkload

__all__ = ["Turn", "next_attempts", "turns"]


@dataclass(frozen=True, slots=True)
class Turn:
    """One workload at one time. `repetition` counts from 1; `left` is how many turns follow."""

    workload: PlannedWorkload
    repetition: int
    left: int

    @property
    def label(self) -> str:
        """Selector of the workload: ``20/1``."""
        return f"{self.workload.experiment}/{self.workload.workload}"


def turns(workloads: Sequence[PlannedWorkload], repeat: int) -> Iterator[Turn]:
    """Yield all workloads in their order, `repeat` times."""
    order = [(repetition, workload) for repetition in range(1, repeat + 1) for workload in workloads]
    for number, (repetition, workload) in enumerate(order, 1):
        yield Turn(workload, repetition, len(order) - number)


def next_attempts(outcomes: Iterable[Outcome], others: Iterable[Job] = ()) -> list[Job]:
    """Return the jobs of a workload's next repetition, by position.

    What somebody has stopped is left out: that person wanted it to end.

    Parameters
    ----------
    outcomes
        How the last attempt of each job of this repetition ended.
    others
        Jobs that belong to the workload too, but had nothing left to run in this repetition.
    """
    jobs = [outcome.job.again() for outcome in outcomes if outcome.status != "stopped"]
    return sorted([*jobs, *others], key=lambda job: job.position)
