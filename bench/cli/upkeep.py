"""Services of the local stack that died while a command holds it: started again, and said."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from rich.markup import escape

from bench.services import Stack

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
    ended = threading.Event()
    gone: list[str] = []

    def mend() -> None:
        before = gone.copy()
        gone[:] = stack.died()  # asked again where no other command starts or stops them
        if gone and gone != before:
            say(
                f"[yellow]![/] {', '.join(gone)} ended unexpectedly, and is started again; why may stand in BENCH_HOME/log"
            )
        if gone:
            ensure()

    def look() -> None:
        pause = _LOOK_SECONDS
        while not ended.wait(pause):
            if not stack.died():
                pause = _LOOK_SECONDS
                gone.clear()
                continue
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
            try:
                stack.exclusively(mend)
            except Exception as error:  # noqa: BLE001 - runs go on whatever it is, and it is tried again
                say(f"[yellow]![/] {', '.join(gone)} cannot be started again: {escape(str(error))}")

    thread = threading.Thread(target=look, name="upkeep", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
