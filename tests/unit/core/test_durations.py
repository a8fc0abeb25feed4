"""Parsed and formatted durations."""

from __future__ import annotations

import pytest

from hypergauge.core import durations
from hypergauge.core.errors import BadRequest


@pytest.mark.parametrize(
    ("text", "seconds", "words"),
    [
        ("500 ms", 0.5, "500 ms"), ("10s", 10, "10 s"), ("250 s", 250, "250 s"), (" 20 min ", 1200, "20 min"),
        ("1.5 h", 5400, "90 min"), ("2 h", 7200, "2 h"), ("7 d", 604_800, "7 d"), ("0 s", 0, "0 s"), ("1 min", 60, "60 s"), ("2m", 120, "2 min"),
    ],
)  # fmt: skip
def test_a_duration_is_read_and_written(text: str, seconds: float, words: str) -> None:
    found = durations.parse(text)
    assert found.total_seconds() == seconds
    assert durations.words(found) == words
    assert durations.parse(words) == found


def test_a_bare_number_has_the_unit_of_its_option() -> None:
    assert durations.parse("90", unit="s").total_seconds() == 90
    assert durations.parse("1.5 h", unit="s").total_seconds() == 5400


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("10", "it has no unit"), ("10 sec", "there is no unit 'sec'"), ("10 M", "there is no unit 'M'"),
        ("soon", "write it like 10 s"), ("-1 s", "write it like"), ("", "write it like"),
    ],
)  # fmt: skip
def test_an_invalid_duration_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(BadRequest, match=complaint):
        durations.parse(text)
