"""Parallel calls of one function for several items."""

from __future__ import annotations

import threading

import pytest

from hypergauge.scheduler.parallel import each
from tests.support.waiting import HUNG_SECONDS


@pytest.mark.parametrize("items", [[], [1], [1, 2], list(range(100))])
def test_each_item_runs_once(items: list[int]) -> None:
    seen: list[int] = []
    each(seen.append, items)
    assert sorted(seen) == items


def test_items_go_at_the_same_time_but_not_too_many() -> None:
    meeting = threading.Barrier(4)  # calls one after the other would never pass it

    def meet(_: int) -> None:
        meeting.wait(HUNG_SECONDS)

    each(meet, range(8), at_once=4)


def test_the_first_error_is_raised_when_all_are_through() -> None:
    seen: list[int] = []

    def work(number: int) -> None:
        seen.append(number)
        if number == 3:
            raise ValueError(f"not {number}")

    with pytest.raises(ValueError, match="not 3"):
        each(work, range(20), at_once=2)
    assert sorted(seen) == list(range(20))
