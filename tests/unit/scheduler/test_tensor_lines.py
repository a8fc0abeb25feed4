"""Lines of the client's file of tensors: any process may write to it."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hypergauge.client.tensors import REDUCTIONS, TensorFile
from hypergauge.scheduler.tracking.tensors import TensorLines
from hypergauge.sql.ingest.tensors import TensorSet, TensorStep, WatchProblem

SET: dict[str, Any] = {"set": "1-0", "collection": "weights", "names": ["a", "b"], "sizes": [3, 4]}


def packed(*values: float) -> str:
    return base64.b64encode(np.array(values, "<f4").tobytes()).decode()


STEP: dict[str, Any] = {"set": "1-0", "step": 7, "time": 5.5, "pid": 9, "l2": packed(3, 4)}


def parsed(*lines: dict[str, Any] | bytes) -> list[TensorSet | TensorStep | WatchProblem | None]:
    reader = TensorLines()
    return [reader.parse(line if isinstance(line, bytes) else json.dumps(line).encode()) for line in lines]


def test_what_the_client_writes_is_read(tmp_path: Path) -> None:
    file = TensorFile(str(tmp_path / "tensors"))
    values = {name: np.array([n, -n], "<f4") for n, name in enumerate(REDUCTIONS)}
    file.write(3, "weights", ["ä", "b"], [1, 2], {name: one.tobytes() for name, one in values.items()}, at=2.5)
    file.write(4, "weights", ["ä", "b"], [5, 6], {"min": values["max"].tobytes()}, at=3.5)
    file.problem("out of\n memory.")
    lines = TensorLines()
    named, first, second, problem = [lines.parse(line) for line in (tmp_path / "tensors").read_bytes().splitlines()]
    assert isinstance(named, TensorSet)
    assert (named.collection, named.names, named.sizes) == ("weights", ["ä", "b"], [1, 2])
    assert isinstance(first, TensorStep)
    assert isinstance(second, TensorStep)
    assert (first.tensor_set, first.step, first.time, first.sizes) == (named.tensor_set, 3, 2.5, None)
    assert {name: one.tolist() for name, one in first.columns.items()} == {n: v.tolist() for n, v in values.items()}
    assert (second.sizes, list(second.columns)) == ([5, 6], ["min"])
    assert problem == WatchProblem("out of memory")


@pytest.mark.parametrize(
    "line",
    [
        b"", b"\n", b"null", b"7", b'"names"', b"[]", b"{", b"\xff\xfe", b"[" * 100_000, b'{"problem', b"1" * 5000,
        json.dumps(STEP).encode()[:40],
        {**SET, "names": []},
        {**SET, "names": ["a", 1]},
        {**SET, "names": "ab"},
        {**SET, "names": None},
        {**SET, "names": ["a", "x" * 2000]},
        {**SET, "sizes": [3]},
        {**SET, "sizes": [3, -1]},
        {**SET, "sizes": [3, True]},
        {**SET, "sizes": [3, 2**63]},
        {**SET, "collection": None},
        {"set": "1-1", "names": ["a"], "sizes": [1]},
        {**STEP, "set": "unknown"},
        {**STEP, "set": ["1-0"]},
        {**STEP, "step": 1.5},
        {**STEP, "step": "7"},
        {**STEP, "step": True},
        {**STEP, "step": 2**63},
        {**STEP, "time": None},
        {**STEP, "time": -1},
        {**STEP, "time": 1e300},
        {**STEP, "time": 10**400},
        json.dumps({**STEP, "time": float("nan")}).encode(),
        {**STEP, "sizes": [1]},
        {**STEP, "l2": packed(1)},
        {**STEP, "l2": packed(1, 2, 3)},
        {**STEP, "l2": "not base64"},
        {**STEP, "l2": None},
        {**STEP, "l2": [1.0, 2.0]},
        {key: value for key, value in STEP.items() if key != "time"},
        {key: value for key, value in STEP.items() if key != "pid"},
    ],
)  # fmt: skip
def test_an_invalid_line_is_skipped_and_the_next_one_is_read(line: dict[str, Any] | bytes) -> None:
    before, bad, after = parsed(SET, line, STEP)
    assert isinstance(before, TensorSet)
    assert bad is None
    assert isinstance(after, TensorStep)
    assert after.columns["l2"].tolist() == [3, 4]
    assert after.norm == 5


@pytest.mark.parametrize("pid", [None, 2**31, "9", 1.5])
def test_an_invalid_process_is_none(pid: object) -> None:
    _, step = parsed(SET, {**STEP, "pid": pid})
    assert isinstance(step, TensorStep)
    assert step.pid is None


def test_texts_are_what_the_database_takes() -> None:
    named, problem = parsed({**SET, "names": ["a\0", "\ud800"], "collection": "w\0"}, {"problem": "a\0 " + "b" * 9999})
    assert isinstance(named, TensorSet)
    assert (named.collection, named.names) == ("w", ["a", "?"])
    assert isinstance(problem, WatchProblem)
    assert len(problem.text) == 500


@pytest.mark.parametrize(
    ("values", "norm"),
    [
        ((3, 4), 5.0),
        ((float("nan"), 2), 2.0),
        ((float("inf"), 2), 2.0),
        ((float("nan"),) * 2, None),
        ((3e38, 4e-46), 3e38),
    ],
)
def test_the_norm_is_of_the_finite_ones(values: tuple[float, float], norm: float | None) -> None:
    _, step = parsed(SET, {**STEP, "l2": packed(*values)})
    assert isinstance(step, TensorStep)
    assert step.norm == (None if norm is None else pytest.approx(norm))


def test_another_set_of_the_same_name_is_a_set_of_its_own() -> None:
    """A process id may be that of two processes of a run, one after the other."""
    one, step, other, later, again = parsed(SET, STEP, {**SET, "names": ["c", "d"]}, STEP, {**SET, "names": ["c", "d"]})
    assert isinstance(one, TensorSet)
    assert isinstance(other, TensorSet)
    assert isinstance(again, TensorSet)
    assert isinstance(step, TensorStep)
    assert isinstance(later, TensorStep)
    assert step.tensor_set == one.tensor_set != other.tensor_set == later.tensor_set == again.tensor_set
