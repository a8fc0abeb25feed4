"""Critical firings as text, for the last lines of commands."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from hypergauge.insight.rules.critical import firing_text
from hypergauge.insight.rules.rule import Firing

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("rule", "evidence", "text"),
    [
        (
            "NonFinite",
            {"collection": "losses", "tensors": ["loss"], "count": 1, "step": 200},
            "its loss became NaN or infinite at step 200 (NonFinite)",
        ),
        (
            "NonFinite",
            {"collection": ["weights", "losses"], "tensors": [["0.weight", "2.weight"], ["loss"]], "step": [3, 4]},
            "its loss became NaN or infinite at step 3 (NonFinite)",
        ),
        (
            "ExplodingTensor",
            {"tensors": ["weights"], "count": 1, "step": 10, "norm": 1e9},
            "its weights exploded at step 10 (ExplodingTensor)",
        ),
        (
            "StalledTraining",
            {"seconds": 41.6, "step": 189},
            "no step ended for 42 s after step 189 (StalledTraining)",
        ),
        ("StalledTraining", {"seconds": 41.6, "step": None}, "no step ended for 42 s (StalledTraining)"),
        ("Mine", {"share": 0.25}, "Mine fired: share 0.25"),
    ],
)
def test_a_firing_is_the_end_of_a_sentence(rule: str, evidence: dict[str, Any], text: str) -> None:
    assert firing_text(Firing("a" * 32, rule, NOW, None, "critical", evidence)) == text
