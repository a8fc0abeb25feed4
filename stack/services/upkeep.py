"""Restart of services that die while a command holds the stack."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.markup import escape

from hypergauge.core.errors import BenchError
from hypergauge.core.services import Stack
from hypergauge.core.system.backoff import Backoff
from hypergauge.core.system.periodic import Periodic

__all__ = ["restarting"]

_LOOK_SECONDS = 1.0
# Longest pause before the restart of a service that dies at each start.
_LONGEST_PAUSE_SECONDS = 60.0


@contextlib.contextmanager
def restarting(stack: Stack, ensure: Callable[[], None], notify: Callable[[str], None]) -> Iterator[None]:
    """Restart services that die, because a missed scrape is lost.

    Parameters
    ----------
    ensure
        Function that starts the missing services, and waits until they answer.
    notify
        Receiver of messages in rich's markup.
    """
    dead: list[str] = []
    backoff = Backoff(2 * _LOOK_SECONDS, _LONGEST_PAUSE_SECONDS)

    def restart() -> None:
        before = dead.copy()
        dead[:] = stack.died()  # checked again, now that no other command starts or stops services
        if dead and dead != before:
            notify(
                f"[yellow]![/] {', '.join(dead)} ended unexpectedly and is restarted; BENCH_HOME/log may have the reason"
            )
        if dead:
            ensure()

    def look() -> float | None:
        if not stack.died():
            dead.clear()
            backoff.worked()
            return None
        try:
            stack.exclusively(restart)
        except BenchError as error:
            notify(f"[yellow]![/] {', '.join(dead)} cannot be restarted: {escape(str(error))}")
        return backoff.failed()

    with Periodic("upkeep of services", look, _LOOK_SECONDS):
        yield
