"""Periodic work: it survives failures, and logs the first one."""

from __future__ import annotations

import logging
import threading

import pytest

from hypergauge.core.errors import BenchError
from hypergauge.core.system.periodic import Periodic
from tests.support.waiting import wait_for


class Calls:
    """Periodic function with scripted failures."""

    def __init__(self, *errors: Exception | None) -> None:
        self.errors, self.count = list(errors), 0

    def __call__(self) -> None:
        self.count += 1
        if self.errors and (error := self.errors.pop(0)) is not None:
            raise error


def test_it_survives_failures(caplog: pytest.LogCaptureFixture) -> None:
    calls = Calls(BenchError("away"), BenchError("still away"), None, TypeError("of ours"), KeyError("too"))
    with Periodic("work", calls, 0.001):
        wait_for(lambda: calls.count > 8, "calls")
    logged = [(record.levelname, record.getMessage(), record.exc_info is not None) for record in caplog.records]
    assert logged == [
        ("WARNING", "work: failed, and is tried again: away", False),
        ("WARNING", "work: works again", False),
        ("ERROR", "work: failed, and is tried again", True),
        ("WARNING", "work: works again", False),
    ]


def test_the_level_of_messages_can_be_lowered(caplog: pytest.LogCaptureFixture) -> None:
    calls = Calls(OSError("away"))
    with Periodic("work", calls, 0.001, level=logging.INFO):
        wait_for(lambda: calls.count > 1, "calls")
    assert caplog.records == []


def test_problem_and_worked_at_show_its_state() -> None:
    calls = Calls(None, BenchError("away"))
    gate = threading.Semaphore(0)

    def call() -> None:
        gate.acquire()
        calls()

    periodic = Periodic("work", call, 0.001).start()
    began = periodic.worked_at
    gate.release()
    wait_for(lambda: periodic.worked_at > began)
    assert periodic.problem is None
    gate.release()
    wait_for(lambda: periodic.problem == "away")
    gate.release()
    wait_for(lambda: periodic.problem is None)
    assert not periodic.end(timeout=0), "the call hangs"
    gate.release()
    assert periodic.end()


def test_failures_lengthen_the_interval_and_a_call_may_set_it(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    calls = Calls(*[BenchError("away")] * 4)

    def call() -> float | None:
        calls()
        return 7.0 if calls.count == 5 else None

    periodic = Periodic("work", call, 1.0, longest=5.0, at_once=True)

    def wait(pause: float) -> bool:
        pauses.append(pause)
        return len(pauses) > 7

    monkeypatch.setattr(periodic._ended, "wait", wait)
    periodic.start()
    wait_for(lambda: len(pauses) > 7)
    periodic.end()
    assert pauses[:7] == [0.0, 2.0, 4.0, 5.0, 5.0, 7.0, 1.0]


def test_it_may_be_ended_before_the_start_and_twice() -> None:
    periodic = Periodic("work", Calls(), 1.0)
    assert periodic.end()
    assert periodic.end()
