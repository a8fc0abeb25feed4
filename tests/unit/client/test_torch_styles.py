"""Trainings of many styles: random numbers, weights, outputs and saved files are the same with and without a watch."""

from __future__ import annotations

import json
import re
import textwrap

import pytest

from hypergauge.scheduler.profilers import PROFILERS
from tests.support.interpreters import needs
from tests.support.styles import BEGIN, END, STYLES
from tests.support.watched import Watched, trained

pytestmark = [needs("torch"), pytest.mark.slow, pytest.mark.xdist_group("torch styles")]

SCRIPT = "".join(
    f"def style_{number}(x, y):\n{textwrap.indent(code.strip(), '    ')}\n"
    for number, code in enumerate(STYLES.values())
)
TABLE = "STYLES = {" + ", ".join(f"{name!r}: style_{number}" for number, name in enumerate(STYLES)) + "}\n"


@pytest.fixture(scope="module", params=["watched", "watched and traced"])
def outputs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Watched, Watched]:
    """Return the same trainings outside a run and in one."""
    folder = tmp_path_factory.mktemp("styles")
    trace = folder / PROFILERS["torch"].report if request.param == "watched and traced" else None
    plain = trained(folder, SCRIPT + TABLE + END, begin=BEGIN, variables={})
    return plain, trained(folder, SCRIPT + TABLE + END, begin=BEGIN, trace=trace)


@pytest.mark.parametrize("style", STYLES)
def test_a_training_is_the_same_with_a_watch(outputs: tuple[Watched, Watched], style: str) -> None:
    plain, watched = (results(done)[style] for done in outputs)
    assert watched == plain
    assert not isinstance(plain[0], list)


def test_no_watch_fails_or_prints(outputs: tuple[Watched, Watched]) -> None:
    plain, watched = outputs
    lines = (watched.folder / "tensors.jsonl").read_text().splitlines()
    assert [line for line in lines if "problem" in line] == []
    assert "hypergauge/client" not in watched.errors
    assert printed(watched) == printed(plain)


def printed(done: Watched) -> list[str]:
    """Return what PyTorch prints, without time, process and number of a compiled function."""
    expression = r"^([A-Z])\d{4} [\d:.]+ \d+ (\S+\]) \[[\d/_]+\]"
    return [re.sub(expression, r"\1 \2", line) for line in done.errors.splitlines()]


def results(done: Watched) -> dict[str, list[object]]:
    lines = [json.loads(line) for line in done.output.splitlines() if line.startswith('["')]
    return {name: values for name, *values in lines}
