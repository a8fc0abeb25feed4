"""The parse budget: parsing next to urgent work."""

from __future__ import annotations

import asyncio
import time

from hypergauge.collector.scrape.parse_budget import ParseBudget


def test_the_event_loop_polls_between_budgets() -> None:
    async def work(budget: ParseBudget, number: int) -> None:
        await budget.acquire(50_000)
        time.sleep(0.001)  # noqa: ASYNC251 - blocks the loop, like parsing
        done.append(number)

    async def arrive() -> None:
        while len(done) < 190:
            before = len(done)
            await asyncio.sleep(0)
            between.append(len(done) - before)

    async def both() -> None:
        budget = ParseBudget()
        working = [asyncio.create_task(work(budget, number)) for number in range(200)]
        await asyncio.sleep(0)
        for cancelled in working[100:105]:
            cancelled.cancel()
        await asyncio.gather(arrive(), *working, return_exceptions=True)

    done: list[int] = []
    between: list[int] = []
    asyncio.run(both())
    assert done == [number for number in range(200) if not 100 <= number < 105]
    assert max(between) <= 6
