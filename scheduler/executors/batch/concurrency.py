"""Concurrent iterations of a schedule, in threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from hypergauge.scheduler.events import Outcome
from hypergauge.scheduler.executors.base import Stopping
from hypergauge.scheduler.plan.iterations import Iteration

__all__ = ["run_concurrently"]

_POLL_SECONDS = 0.2


def run_concurrently(
    iterations: Sequence[Iteration],
    most: int,
    run: Callable[[Iteration], list[Outcome]],
    stopping: Stopping,
) -> list[Outcome]:
    """Run iterations in their order, `most` of them at once; a repetition waits for the one before.

    The first interrupt asks running iterations to stop, the second one to stop at once; it is raised when all have ended.
    After an error no further iteration begins; the error is raised when the running ones have ended.
    """
    latest: dict[str, Future[list[Outcome]]] = {}

    def run_after(iteration: Iteration, before: Future[list[Outcome]] | None) -> list[Outcome]:
        if before is not None:  # it was submitted earlier, so it has a thread
            wait([before])
        if stopping.asked.is_set() or stopping.failed.is_set():
            return []
        try:
            return run(iteration)
        except BaseException:
            stopping.failed.set()
            raise

    interrupts = 0
    with ThreadPoolExecutor(most, thread_name_prefix="workload") as pool:
        futures = []
        for iteration in iterations:
            latest[iteration.label] = pool.submit(run_after, iteration, latest.get(iteration.label))
            futures.append(latest[iteration.label])
        left = set(futures)
        while left:
            try:
                left = wait(left, _POLL_SECONDS, FIRST_COMPLETED).not_done
            except KeyboardInterrupt:
                interrupts += 1
                (stopping.at_once if interrupts > 1 else stopping.asked).set()
    if interrupts:
        raise KeyboardInterrupt
    return [outcome for future in futures for outcome in future.result()]
