"""Backoff: the wait doubles up to a limit, and is reset by a success."""

from __future__ import annotations

from hypergauge.core.system.backoff import Backoff


def test_the_wait_doubles_and_is_reset() -> None:
    backoff = Backoff(0.2, 1.0)
    assert [backoff.failed() for _ in range(5)] == [0.2, 0.4, 0.8, 1.0, 1.0]
    backoff.worked()
    backoff.worked()
    assert [backoff.failed() for _ in range(2)] == [0.2, 0.4]
