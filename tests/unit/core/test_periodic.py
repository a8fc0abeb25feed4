"""Periodic work: it survives failures, and logs the first one."""

from __future__ import annotations

import logging
import threading

import pytest

from hypergauge.core.errors import BenchError
from hypergauge.core.system.periodic import Periodic
from tests.support.waiting import wait_for


class Turns:
    """Periodic function with scripted failures."""

    def __init__(self, *errors: Exception | None) -> None:
        self.errors, self.count = list(errors), 0

    def __call__(self) -> None:
        self.count += 1
        if self.errors and (error := self.errors.pop(0)) is not None:
            raise error


def test_no_failure_ends_it(caplog: pytest.LogCaptureFixture) -> None:
    turns = Turns(BenchError("away"), BenchError("still away"), None, TypeError("of ours"), KeyError("too"))
    with Periodic("work", turns, 0.001):
        wait_for(lambda: turns.count > 8, "turns")
    logged = [(record.levelname, record.getMessage(), record.exc_info is not None) for record in caplog.records]
    assert logged == [
        ("WARNING", "work: failed, and is tried again: away", False),
        ("WARNING", "work: works again", False),
        ("ERROR", "work: failed, and is tried again", True),
        ("WARNING", "work: works again", False),
    ]


def test_what_people_are_told_otherwise_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    turns = Turns(OSError("gone"))
    with Periodic("work", turns, 0.001, level=logging.INFO):
        wait_for(lambda: turns.count > 1, "turns")
    assert caplog.records == []


def test_its_owner_sees_how_it_is() -> None:
    turns = Turns(None, BenchError("away"))
    gate = threading.Semaphore(0)

    def turn() -> None:
        gate.acquire()
        turns()

    periodic = Periodic("work", turn, 0.001).start()
    began = periodic.worked_at
    gate.release()
    wait_for(lambda: periodic.worked_at > began)
    assert periodic.problem is None
    gate.release()
    wait_for(lambda: periodic.problem == "away")
    gate.release()
    wait_for(lambda: periodic.problem is None)
    assert not periodic.end(timeout=0), "its turn hangs"
    gate.release()
    assert periodic.end()


def test_failures_make_it_rarer_and_a_turn_may_say_when_the_next_one_is(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    turns = Turns(*[BenchError("away")] * 4)

    def turn() -> float | None:
        turns()
        return 7.0 if turns.count == 5 else None

    periodic = Periodic("work", turn, 1.0, longest=5.0, at_once=True)

    def wait(pause: float) -> bool:
        pauses.append(pause)
        return len(pauses) > 7

    monkeypatch.setattr(periodic._ended, "wait", wait)
    periodic.start()
    wait_for(lambda: len(pauses) > 7)
    periodic.end()
    assert pauses[:7] == [0.0, 2.0, 4.0, 5.0, 5.0, 7.0, 1.0]


def test_it_may_be_ended_before_it_begins_and_twice() -> None:
    periodic = Periodic("work", Turns(), 1.0)
    assert periodic.end()
    assert periodic.end()
