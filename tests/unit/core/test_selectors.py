"""Selectors of experiments, workloads and runs."""

from __future__ import annotations

import pytest

from hypergauge.core.errors import BadRequest
from hypergauge.core.selectors import Selector, new_run_id


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("20", Selector(experiment=20)),
        ("20/1", Selector(experiment=20, workload=1)),
        ("20/1/3", Selector(experiment=20, workload=1, position=3)),
        ("20/1/3@1", Selector(experiment=20, workload=1, position=3, attempt=1)),
        (" 0/0 ", Selector(experiment=0, workload=0)),
        ("123456", Selector(experiment=123456)),  # digits alone are always an experiment
        ("12345a", Selector(prefix="12345a")),
        ("ABCDEF", Selector(prefix="abcdef")),
        ("a" * 32, Selector(prefix="a" * 32)),
    ],
)
def test_good_selectors(text: str, expected: Selector) -> None:
    assert Selector.parse(text) == expected
    assert Selector.parse(str(expected)) == expected


@pytest.mark.parametrize(
    "text", ["", "20/", "/1", "20/1/3/4", "20@1", "20/1@1", "-1", "abcde", "g" * 8, "a" * 33, "1.5"]
)
def test_bad_selectors_are_refused_with_the_format(text: str) -> None:
    with pytest.raises(BadRequest, match=r"selects nothing: write EXPERIMENT"):
        Selector.parse(text)


def test_the_beginning_of_a_new_runs_id_selects_it() -> None:
    for _ in range(1000):
        run_id = new_run_id()
        assert len(run_id) == 32
        for length in (6, 8, 32):
            assert Selector.parse(run_id[:length]) == Selector(prefix=run_id[:length])
