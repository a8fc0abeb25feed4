"""Options of a part of runs."""

from __future__ import annotations

import pytest

from hypergauge.core.errors import BadRequest
from hypergauge.insight.part import Part


@pytest.mark.parametrize(
    ("options", "part", "words"),
    [
        (("60", "120", None), Part(60, 120), "from 60 s to 2 min"),
        (("2m", None, None), Part(120), "from 2 min"),
        ((None, "1.5 h", "train"), Part(None, 5400, "train"), "phase train, to 90 min"),
        ((None, None, "warm up"), Part(phase="warm up"), "phase warm up"),
        (("0", "500ms", None), Part(0, 0.5), "from 0 s to 500 ms"),
    ],
)
def test_the_options_are_a_part(options: tuple[str | None, ...], part: Part, words: str) -> None:
    found = Part.of(*options)
    assert found == part
    assert found.words == words


def test_no_option_is_the_whole_run() -> None:
    assert Part.of(None, None, None) is None


@pytest.mark.parametrize(
    ("start", "end", "complaint"),
    [
        ("120", "60", "--from 2 min is not before --to 60 s: exchange them"),
        ("60", "1 min", "--from 60 s is not before --to 60 s"),
        (None, "0", "--to 0 s leaves nothing of a run"),
        ("soon", None, "--from: 'soon' is not a duration: write it like 10 s"),
        (None, "2 mon", r"--to: '2 mon' is not a duration: there is no unit 'mon' \(did you mean 'min'\?\)"),
        ("-1", None, "--from: '-1' is not a duration"),
    ],
)
def test_an_empty_range_and_what_is_no_duration_are_refused(start: str | None, end: str | None, complaint: str) -> None:
    with pytest.raises(BadRequest, match=complaint):
        Part.of(start, end, None)
