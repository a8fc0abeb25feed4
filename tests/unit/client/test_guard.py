"""Guard around hooks: own errors end the hooks, those of the script's signal handlers reach the script."""

from __future__ import annotations

import functools
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hypergauge.client.guard import Guard, suppress_own


class TimedOut(Exception):
    """Error of the script's handler."""


def handler(_: int, __: object) -> None:
    raise TimedOut


def further(text: str, *_: object) -> None:
    raise TimedOut(text)


def once(number: int, _: object) -> None:
    signal.signal(number, signal.SIG_IGN)
    raise TimedOut


class Object:
    """Object with handlers."""

    def __call__(self, *_: object) -> None:
        self.method(*_)

    def method(self, number: object, frame: object) -> None:
        raise TimedOut


def interrupted() -> None:
    signal.raise_signal(signal.SIGALRM)


@pytest.fixture(autouse=True)
def _alarm() -> Iterator[None]:
    before = signal.getsignal(signal.SIGALRM)
    yield
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def reports() -> list[str]:
    return []


@pytest.fixture
def guard(reports: list[str]) -> Guard:
    return Guard("watch", reports.append)


@pytest.mark.parametrize(
    "handles",
    [
        handler,
        once,
        Object(),
        Object().method,
        functools.partial(further, "late"),
        lambda *_: further("late"),
    ],
    ids=["function", "once", "object", "method", "partial", "lambda"],
)
@pytest.mark.parametrize("wrap", ["__call__", "function", "result"])
def test_an_error_of_a_signal_handler_reaches_the_script(
    guard: Guard, reports: list[str], handles: Callable[..., Any], wrap: str
) -> None:
    signal.signal(signal.SIGALRM, handles)
    with pytest.raises(TimedOut):
        getattr(guard, wrap)(interrupted)()
    assert (guard.on, reports) == (True, [])


def of_another_frame() -> None:
    """Raise an error of its own, with the caller's frame at hand."""
    frame = sys._getframe(1)
    raise ValueError(frame.f_lineno)


@pytest.mark.parametrize("hook", [of_another_frame, lambda: handler(0, None)], ids=["own", "called"])
def test_an_own_error_ends_the_hooks(guard: Guard, reports: list[str], hook: Callable[[], None]) -> None:
    signal.signal(signal.SIGALRM, handler)
    guard(hook)()
    assert not guard.on
    assert [report.startswith("watch is off: ") for report in reports] == [True]


def test_an_error_of_a_signal_handler_leaves_the_report_of_another_one(reports: list[str]) -> None:
    signal.signal(signal.SIGALRM, handler)
    guard = Guard("watch", reports.append, release=interrupted)
    with pytest.raises(TimedOut):
        guard(of_another_frame)()
    assert (guard.on, len(reports)) == (False, 1)


def test_only_own_errors_are_suppressed() -> None:
    signal.signal(signal.SIGALRM, handler)
    with suppress_own(Exception):
        of_another_frame()
    with pytest.raises(KeyError), suppress_own(ValueError):
        raise KeyError
    with pytest.raises(TimedOut), suppress_own(Exception):
        interrupted()
