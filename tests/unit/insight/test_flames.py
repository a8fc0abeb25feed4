"""Boxes of flame graphs."""

from __future__ import annotations

import pytest

from hypergauge.insight.flames import Box, flames
from hypergauge.sql.runs.profiles import ProfileStack


def boxes(*stacks: tuple[str, float]) -> list[Box]:
    return list(flames(ProfileStack("function", frames.split(), None, seconds) for frames, seconds in stacks))


def test_a_box_is_as_wide_as_all_that_it_calls() -> None:
    found = {
        one.name: one for one in boxes(("main", 1.0), ("main load", 2.0), ("main load read", 3.0), ("main step", 4.0))
    }
    assert {name: (one.depth, one.seconds) for name, one in found.items()} == {
        "main": (0, 10.0),
        "load": (1, 5.0),
        "read": (2, 3.0),
        "step": (1, 4.0),
    }
    assert found["main"].width == 1
    assert (found["load"].left, found["load"].width) == (0, 0.5)
    assert found["step"].left == pytest.approx(0.5)
    assert found["read"].left == found["load"].left


def test_boxes_too_narrow_to_see_are_left_out() -> None:
    assert [one.name for one in boxes(("wide", 999.0), ("narrow", 1.0))] == ["wide"]


def test_imports_are_drawn_without_their_machinery() -> None:
    stacks = [
        ProfileStack("function", ["a (a.py:1)", "_load (<frozen importlib._bootstrap>:9)", "b (b.py:1)"], None, 1.0)
    ]
    assert [(one.name, one.depth) for one in flames(stacks)] == [("a (a.py:1)", 0), ("b (b.py:1)", 1)]


def test_a_recursion_of_any_depth_is_drawn_to_a_limit() -> None:
    found = boxes((" ".join(["f"] * 5000), 1.0))
    assert len(found) == 30
    assert all(one.width == 1 for one in found)
