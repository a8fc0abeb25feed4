"""Wording of the verdicts of a regression gate: one case for each code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from hypergauge.sql.queries.notices import verdict_texts
from tests.support.world import World

DOCS = Path(__file__).parents[3] / "docs"
ABOUT = {"metric": "step_time", "scope": "device", "side": "above"}
TEST = {
    **ABOUT, "threshold": 0.03, "alpha": 0.05, "wanted_power": 0.8, "change": 0.0512, "low": -0.001, "high": 0.1034,
    "p_adjusted": 0.2147, "visible": 0.0609, "power": 0.42, "repetitions": 9,
}  # fmt: skip
CASES: list[tuple[str, dict[str, Any], str]] = [
    (
        "change_shown", {**TEST, "p_adjusted": 0.00001},
        "step_time of the whole GPU changed by +5.1% (90% interval -0.1% to +10.3%), above +3%: p < 0.0001",
    ),
    (
        "change_not_shown", TEST,
        (
            "step_time of the whole GPU changed by +5.1% (90% interval -0.1% to +10.3%), not shown to be above +3%: p = 0.21; "
            "the power for +6.1% is 42%; a power of 80% takes 9 attempts each"
        ),
    ),
    ("bound_exceeded", {**ABOUT, "attempts": 1}, "step_time of the whole GPU of its attempt is above the bound"),
    (
        "bound_kept", {**ABOUT, "scope": "process", "attempts": 3},
        "the mean step_time of its 3 attempts is not above the bound",
    ),
    (
        "one_attempt",
        {**ABOUT, "scope": "", "rows": ["20/1/1"], "measured": False, "repetitions": None, "visible": -0.0591, "wanted_power": 0.8},
        (
            "nothing can be concluded on step_time from one attempt of 20/1/1: with the deviation of 2% assumed, more than 200 "
            "attempts each show -5.9% with a power of 80% (bench schedule --repeat N)"
        ),
    ),
    (
        "not_finite", {"metric": "loss", "attempts": ["20/1/1@1", "20/1/1@2"]},
        "loss is NaN or infinite at last in 20/1/1@1, 20/1/1@2",
    ),
    (
        "attempts_missing",
        {"metric": "loss", "attempts": ["20/1/1@1", "20/1/1@2", "20/1/1@3"], "causes": ["failed", "not_finite", "not_measured"]},
        (
            "loss has no value in 20/1/1@1 (failed), 20/1/1@2 (NaN or infinite), 20/1/1@3 (not measured), and the other "
            "attempts are no sample of all; repeat them, or name the attempts to compare"
        ),
    ),
    ("not_measured", {"metric": "energy", "rows": ["21/1/1", "20/1/1"]}, "no finished attempt of 21/1/1 and 20/1/1 has energy"),
    ("not_positive", {"metric": "accuracy"}, "accuracy is 0 or less in some attempts, which has no relative change; use a bound"),
    ("idle_energy_differs", {"metric": "energy"}, "energy includes idle energy in some attempts only"),
    (
        "divided_energy_differs",
        {"metric": "energy"},
        "energy is an equal part of that of several processes in some attempts only",
    ),
    (
        "scopes_differ", {"metric": "energy", "scopes": ["device", "process"]},
        "energy was measured in the scopes device and process; --scope chooses one",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("code", "values", "text"), CASES, ids=[code for code, *_ in CASES])
def test_wording(world: World, code: str, values: dict[str, Any], text: str) -> None:
    assert verdict_texts(world.connection, [{"row": "21/1/1", "reason": code, **values}]) == [f"21/1/1: {text}"]


def test_no_threshold_and_enough_power(world: World) -> None:
    values = {**TEST, "row": "21/1/1", "reason": "change_not_shown", "threshold": 0, "side": "below", "power": 0.9}
    [text] = verdict_texts(world.connection, [values])
    assert text.endswith("not shown to be below +0%: p = 0.21; the power for +6.1% is 90%")


def test_the_documentation_lists_every_reason() -> None:
    listed = re.findall(
        r"^\| (`\w+`(?:, `\w+`)*) \| `metric`", (DOCS / "reference" / "gate.md").read_text(), re.MULTILINE
    )
    assert re.findall(r"\w+", " ".join(listed)) == [code for code, *_ in CASES]
