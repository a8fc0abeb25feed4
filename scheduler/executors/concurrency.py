"""Concurrent workloads of a schedule, in threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from hypergauge.scheduler.events import Outcome
from hypergauge.scheduler.plan.repetition import Turn

__all__ = ["Stopping", "run_concurrently"]

_LOOK_SECONDS = 0.2


@dataclass(frozen=True)
class Stopping:
    """Stop flags of a schedule: in order, or at once. `failed` means that no further workload begins."""

    asked: threading.Event = field(default_factory=threading.Event)
    at_once: threading.Event = field(default_factory=threading.Event)
    failed: threading.Event = field(default_factory=threading.Event)


def run_concurrently(
    turns: Sequence[Turn], most: int, run: Callable[[Turn], list[Outcome]], stopping: Stopping
) -> list[Outcome]:
    """Run turns, `most` of them at once, begun in their order; a repetition waits for the one before.

    A first interrupt asks those that go on to stop, a second one to do so at once; it is raised again when all have. An error
    of one turn lets no further one begin, and is raised when those that go on have ended.
    """
    latest: dict[str, Future[list[Outcome]]] = {}

    def turn_after(turn: Turn, before: Future[list[Outcome]] | None) -> list[Outcome]:
        if before is not None:  # it was begun earlier, so it has a thread
            wait([before])
        if stopping.asked.is_set() or stopping.failed.is_set():
            return []
        try:
            return run(turn)
        except BaseException:
            stopping.failed.set()
            raise

    interrupts = 0
    with ThreadPoolExecutor(most, thread_name_prefix="turn") as pool:
        futures = []
        for turn in turns:
            latest[turn.label] = pool.submit(turn_after, turn, latest.get(turn.label))
            futures.append(latest[turn.label])
        left = set(futures)
        while left:
            try:
                left = wait(left, _LOOK_SECONDS, FIRST_COMPLETED).not_done
            except KeyboardInterrupt:
                interrupts += 1
                (stopping.at_once if interrupts > 1 else stopping.asked).set()
    if interrupts:
        raise KeyboardInterrupt
    return [outcome for future in futures for outcome in future.result()]
