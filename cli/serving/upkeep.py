"""Restart of stack services that died while a command holds the stack."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.markup import escape

from hypergauge.core.errors import BenchError
from hypergauge.core.services import Stack
from hypergauge.core.system.backoff import Backoff
from hypergauge.core.system.periodic import Periodic

__all__ = ["kept_up"]

_LOOK_SECONDS = 1.0
# One that dies at each start is started ever more rarely.
_LONGEST_PAUSE_SECONDS = 60.0


@contextlib.contextmanager
def kept_up(stack: Stack, ensure: Callable[[], None], say: Callable[[str], None]) -> Iterator[None]:
    """Start again what dies of a stack that is held: what is not scraped meanwhile nobody can make up for.

    Parameters
    ----------
    ensure
        Starts what is missing, and waits until it answers.
    say
        Takes a line in rich's markup.
    """
    gone: list[str] = []
    backoff = Backoff(2 * _LOOK_SECONDS, _LONGEST_PAUSE_SECONDS)

    def mend() -> None:
        before = gone.copy()
        gone[:] = stack.died()  # asked again where no other command starts or stops them
        if gone and gone != before:
            say(
                f"[yellow]![/] {', '.join(gone)} ended unexpectedly, and is started again; why may stand in BENCH_HOME/log"
            )
        if gone:
            ensure()

    def look() -> float | None:
        if not stack.died():
            gone.clear()
            backoff.worked()
            return None
        try:
            stack.exclusively(mend)
        except BenchError as error:
            say(f"[yellow]![/] {', '.join(gone)} cannot be started again: {escape(str(error))}")
        return backoff.failed()

    with Periodic("upkeep of services", look, _LOOK_SECONDS):
        yield
