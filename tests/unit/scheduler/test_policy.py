"""Timeouts, retries and repetitions."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hypergauge.core.errors import BadRequest
from hypergauge.scheduler.events import Outcome
from hypergauge.scheduler.experiment.cells import Collocation
from hypergauge.scheduler.job import Job
from hypergauge.scheduler.launch.launch import Command
from hypergauge.scheduler.plan.policy import Policy
from hypergauge.scheduler.plan.retries import run_with_retries


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (Policy(timeout=0), "--timeout must be a positive number of seconds, not 0"),
        (Policy(timeout=math.nan), "--timeout must be a positive number of seconds, not nan"),
        (Policy(workload_timeout=-1), "--workload-timeout must be a positive number of seconds, not -1"),
        (Policy(workload_timeout=math.inf), "--workload-timeout must be a positive number of seconds, not inf"),
        (Policy(retries=-1), "--retries must be a number from 0 to 1000, not -1"),
        (Policy(retries=1001), "--retries must be a number from 0 to 1000, not 1001"),
        (Policy(repeat=0), "--repeat must be a number from 1 to 10000, not 0"),
        (Policy(repeat=10_001), "--repeat must be a number from 1 to 10000, not 10001"),
    ],
)
def test_what_makes_no_sense_is_refused(policy: Policy, expected: str) -> None:
    with pytest.raises(BadRequest) as refused:
        policy.validate()
    assert str(refused.value) == expected


@pytest.mark.parametrize("policy", [Policy(), Policy(0.5, 10, 1000, fail_fast=True, repeat=10_000)])
def test_what_makes_sense_is_taken(policy: Policy) -> None:
    assert policy.validate() is policy


@pytest.mark.parametrize(
    ("policy", "workload_began", "expected"),
    [
        (Policy(), None, (math.inf, "")),
        (Policy(timeout=5), 80, (105, "ran longer than 5 s")),
        (Policy(workload_timeout=60), None, (160, "its workload ran longer than 60 s")),
        (Policy(workload_timeout=60), 80, (140, "its workload ran longer than 60 s")),
        (Policy(timeout=30, workload_timeout=60), 80, (130, "ran longer than 30 s")),
        (Policy(timeout=30, workload_timeout=60), 60, (120, "its workload ran longer than 60 s")),
    ],
)
def test_the_earlier_deadline_counts(policy: Policy, workload_began: float | None, expected: tuple[float, str]) -> None:
    assert policy.deadline(100, workload_began) == expected


def job(position: int, name: str) -> Job:
    return Job(name, Command(("x",), Path("/"), {}), {}, "x", "-", Collocation(), (), "f", position, 1)


@dataclass
class Script:
    """Scripted job runner: by name, the statuses of successive attempts."""

    statuses: dict[str, list[str]]
    began_at: float = field(default_factory=time.time)
    passes: list[tuple[bool, float | None, list[tuple[str, int]]]] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)

    def run(self, policy: Policy, *names: str, attached: Sequence[str] = ()) -> list[tuple[str, int, str]]:
        jobs = [job(position, name) for position, name in enumerate([*names, *attached])]
        outcomes = run_with_retries(policy, self.open, jobs[: len(names)], jobs[len(names) :], self.messages.append)
        return [(outcome.job.name, outcome.job.attempt, outcome.status) for outcome in outcomes]

    def open(self, policy: Policy, began: float | None) -> _Pass:
        return _Pass(self, policy, began)


@dataclass
class _Pass:
    script: Script
    policy: Policy
    began: float | None

    def run(self, jobs: Sequence[Job], attached: Sequence[Job] = ()) -> list[Outcome]:
        both = [*jobs, *attached]
        self.script.passes.append((self.policy.fail_fast, self.began, [(one.name, one.attempt) for one in both]))
        self.began = self.began or self.script.began_at
        return [Outcome(one, "0" * 32, self.script.statuses[one.name][one.attempt - 1]) for one in both]


def test_without_retries_nothing_is_repeated() -> None:
    script = Script({"good": ["finished"], "bad": ["failed"]})
    assert script.run(Policy(), "good", "bad") == [("good", 1, "finished"), ("bad", 1, "failed")]
    assert (len(script.passes), script.messages) == (1, [])


def test_what_failed_or_timed_out_is_repeated_until_it_finishes() -> None:
    script = Script(
        {
            "good": ["finished"],
            "bad": ["failed", "failed", "finished"],
            "slow": ["timeout", "finished"],
            "ended": ["stopped"],
        }
    )
    assert script.run(Policy(retries=5), "good", "bad", "slow", attached=["ended"]) == [
        ("good", 1, "finished"), ("bad", 3, "finished"), ("slow", 2, "finished"), ("ended", 1, "stopped"),
    ]  # fmt: skip
    assert [names for *_, names in script.passes] == [
        [("good", 1), ("bad", 1), ("slow", 1), ("ended", 1)], [("bad", 2), ("slow", 2)], [("bad", 3)],
    ]  # fmt: skip
    assert script.messages == [
        "failed runs are repeated: bad, slow (retry 1 of 5)",
        "failed runs are repeated: bad (retry 2 of 5)",
    ]


def test_retries_are_used_up() -> None:
    script = Script({"bad": ["failed"] * 4})
    assert script.run(Policy(retries=2), "bad") == [("bad", 3, "failed")]


def test_only_a_failure_that_nothing_is_left_to_repeat_ends_the_others() -> None:
    script = Script({"bad": ["failed"] * 3})
    script.run(Policy(retries=2, fail_fast=True), "bad")
    assert [fail_fast for fail_fast, *_ in script.passes] == [False, False, True]


def test_the_time_of_a_workload_is_that_of_all_its_attempts() -> None:
    script = Script({"bad": ["failed"] * 3})
    script.run(Policy(retries=1, workload_timeout=60), "bad")
    assert [began for _, began, _ in script.passes] == [None, script.began_at]


def test_nothing_is_repeated_when_the_time_of_a_workload_is_over() -> None:
    script = Script({"bad": ["failed"] * 3}, began_at=time.time() - 61)
    assert script.run(Policy(retries=1, workload_timeout=60), "bad") == [("bad", 1, "failed")]
    assert script.messages == ["failed runs are not repeated: the workload has reached its timeout"]
