"""Damaged and hostile input for tests of what comes from outside.

The examples are the same each time. ``BENCH_TEST_FUZZ=N`` draws N others, for long searches.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

__all__ = ["damaged_bytes", "fuzzed", "hostile", "mutated", "refusal"]

_NUMBER = os.environ.get("BENCH_TEST_FUZZ")
_CHECKS = (HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large)


def fuzzed(examples: int) -> settings:
    """Return the settings of a test with this number of examples."""
    return settings(
        max_examples=int(_NUMBER) if _NUMBER else examples, derandomize=not _NUMBER, database=None, deadline=None,
        suppress_health_check=_CHECKS,
    )  # fmt: skip


def refusal(call: Callable[[], object], error: type[Exception]) -> str | None:
    """Return the message with which a call is refused, ``None`` if it succeeds. Other errors pass through."""
    try:
        call()
    except error as refused:
        return str(refused)
    return None


def _nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


# JSON values that break readers: numbers that are none or too large, other types, NUL, controls, depth.
hostile = st.one_of(
    st.sampled_from([
        None, True, False, 0, -1, -0.0, 2**31, 2**63, -(2**63) - 1, 10**400, 1e308, -1e308, 5e-324,
        float("nan"), float("inf"), float("-inf"), "", "\0", "\x1b[2J", "NaN", "-1", "infinity", "é", "../../x", "x" * 5000,
        [], {}, [None], {"": None}, _nested(90), _nested(400),
    ]),
    st.integers(), st.floats(), st.text(max_size=20),
    st.lists(st.one_of(st.none(), st.integers(), st.text(max_size=5)), max_size=3),
    st.dictionaries(st.text(max_size=5), st.one_of(st.none(), st.integers(), st.text(max_size=5)), max_size=3),
)  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn, document: Any, most: int = 3) -> Any:
    """Return a copy of a JSON document in which some values are hostile, missing or repeated."""
    changed = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, most))):
        parent: Any = None
        key: Any = None
        value = changed
        while isinstance(value, dict | list) and value and (parent is None or draw(st.integers(0, 4))):
            parent = value
            key = draw(st.sampled_from(sorted(value, key=str) if isinstance(value, dict) else range(len(value))))
            value = parent[key]
        action = draw(st.sampled_from(["replace", "replace", "replace", "delete", "repeat", "add"]))
        if parent is None:
            changed = copy.deepcopy(draw(hostile))
        elif action == "delete":
            del parent[key]
        elif action == "repeat" and isinstance(parent, list):
            parent.insert(key, copy.deepcopy(value))
        elif action == "add" and isinstance(parent, dict):
            parent[draw(st.text(max_size=8))] = copy.deepcopy(draw(hostile))
        else:
            parent[key] = copy.deepcopy(draw(hostile))
    return changed


@st.composite
def damaged_bytes(draw: st.DrawFn, content: bytes, most: int = 4) -> bytes:
    """Return bytes that are cut, flipped, repeated, or have others inserted."""
    changed = bytearray(content)
    for _ in range(draw(st.integers(1, most))):
        at = draw(st.integers(0, len(changed)))
        action = draw(st.sampled_from(["flip", "flip", "cut", "insert", "delete", "repeat"]))
        if action == "flip" and at < len(changed):
            changed[at] = draw(st.integers(0, 255))
        elif action == "cut":
            del changed[at:]
        elif action == "insert":
            changed[at:at] = draw(st.binary(max_size=8))
        elif action == "delete":
            del changed[at : at + draw(st.integers(1, 64))]
        else:
            changed[at:at] = changed[at : at + draw(st.integers(1, 64))]
    return bytes(changed)
