"""Pace of scrapes, by a clock of the test."""

from __future__ import annotations

import pytest

from hypergauge.exporters.serving.pace import Pace


@pytest.mark.parametrize(
    ("gaps", "seconds"),
    [
        ([], 1.0),
        ([1.0] * 9, 1.0),
        ([10.0] * 9, 1.0),  # its last line is recent at any pace
        ([0.1, 0.1], 1.0),
        ([0.1] * 3, 0.1),
        ([0.1] * 9 + [2.0, 0.1], 0.1),  # a restart of the tool
        ([0.1] * 9 + [1.0] * 3, 1.0),
        ([0.6, 0.9, 0.7] * 9, 1.0),  # a busy host, or two collectors
        ([0.5] * 9, 0.5),
        ([0.01] * 9, 0.1),
    ],
)
def test_a_tool_follows_the_scrapes(gaps: list[float], seconds: float) -> None:
    now = 0.0
    pace = Pace(lambda: now)
    found = pace.scraped()
    for gap in gaps:
        now += gap
        found = pace.scraped()
    assert found == pytest.approx(seconds)
