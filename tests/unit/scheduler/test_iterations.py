"""The order of repeated workloads."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypergauge.scheduler.events import Outcome
from hypergauge.scheduler.experiment.cells import Collocation
from hypergauge.scheduler.job import Job
from hypergauge.scheduler.launch.launch import Command
from hypergauge.scheduler.plan.iterations import iterations, next_attempts
from hypergauge.scheduler.plan.plan import PlannedWorkload


def job(position: int, attempt: int = 1) -> Job:
    command = Command(("x",), Path("/"), {})
    return Job(f"job {position}", command, {}, "x", "-", Collocation(), (), "f", position, attempt)


@pytest.mark.parametrize(
    ("workloads", "repeat", "expected"),
    [
        (3, 1, [("20/1", 1, 2), ("20/2", 1, 1), ("20/3", 1, 0)]),
        (2, 2, [("20/1", 1, 3), ("20/2", 1, 2), ("20/1", 2, 1), ("20/2", 2, 0)]),
        (1, 3, [("20/1", 1, 2), ("20/1", 2, 1), ("20/1", 3, 0)]),
        (0, 3, []),
    ],
)
def test_all_workloads_run_once_before_one_is_repeated(
    workloads: int, repeat: int, expected: list[tuple[str, int, int]]
) -> None:
    planned = [PlannedWorkload(20, number, ()) for number in range(1, workloads + 1)]
    assert [(one.label, one.repetition, one.left) for one in iterations(planned, repeat)] == expected


def test_a_repetition_is_the_next_attempt_of_all_but_what_was_stopped() -> None:
    ended = [
        Outcome(job(1), "a", "finished"),
        Outcome(job(2, attempt=4), "b", "failed"),
        Outcome(job(3), "c", "timeout"),
        Outcome(job(4), "d", "stopped"),
    ]
    again = next_attempts(ended, [job(0, attempt=7)])
    assert [(one.position, one.attempt) for one in again] == [(0, 7), (1, 2), (2, 5), (3, 2)]
