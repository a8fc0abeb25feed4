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
    """Run iterations in order, up to `most` at once; a repetition waits for the previous one of its workload.

    The first interrupt stops running iterations in order, the second one at once; it is raised after their ends.
    After an error no further iteration starts; the error is raised after the ends of running iterations.
    """
    latest: dict[str, Future[list[Outcome]]] = {}

    def run_after(iteration: Iteration, before: Future[list[Outcome]] | None) -> list[Outcome]:
        if before is not None:  # no deadlock: submitted earlier, it has a thread
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
