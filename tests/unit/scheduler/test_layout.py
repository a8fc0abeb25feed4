"""Mixes of MIG instances that fit beside existing ones."""

from __future__ import annotations

import pytest

from hypergauge.gpu.models import MODELS, Profile
from hypergauge.gpu.placement import place
from hypergauge.scheduler.devices.layout import alternatives, mix


def instances(model: str, there: list[tuple[str, int]]) -> list[tuple[Profile, int]]:
    known = {profile.name: profile for profile in MODELS[model].profiles}
    return [(known[name], start) for name, start in there]


@pytest.mark.parametrize(
    ("model", "wanted", "there", "instead"),
    [
        ("A100", ["4g.20gb", "4g.20gb"], [], ["4g.20gb + 3g.20gb", "2 x 3g.20gb", "4g.20gb + 2g.10gb"]),
        ("A100", ["7g.40gb", "1g.5gb"], [], ["4g.20gb + 1g.5gb", "3g.20gb + 1g.5gb", "2g.10gb + 1g.5gb"]),
        ("A100", ["1g.5gb"] * 8, [], ["7 x 1g.5gb"]),
        ("A100", ["1g.5gb"] * 40 + ["4g.20gb"] * 2, [], ["7 x 1g.5gb"]),
        ("A100", ["3g.20gb", "3g.20gb", "1g.5gb"], [], ["3g.20gb + 2g.10gb + 1g.5gb", "3g.20gb + 1g.10gb + 1g.5gb", "3g.20gb + 2 x 1g.5gb"]),
        ("A100", ["4g.20gb"], [("1g.5gb", 0)], ["3g.20gb", "2g.10gb", "1g.10gb"]),
        ("A100", ["3g.20gb"], [("7g.40gb", 0)], []),
        ("A100", ["1g.6gb"], [], []),
        ("A30", ["4g.24gb", "1g.6gb"], [], ["2g.12gb + 1g.6gb", "2 x 1g.6gb"]),
        ("A30", ["2g.12gb"], [("1g.6gb", 0), ("1g.6gb", 3)], ["1g.6gb"]),
        ("H100", ["1g.20gb"] * 5, [], ["3 x 1g.20gb + 2 x 1g.10gb", "2 x 1g.20gb + 3 x 1g.10gb", "1g.20gb + 4 x 1g.10gb"]),
    ],
)  # fmt: skip
def test_what_does_not_fit_and_what_would(
    model: str, wanted: list[str], there: list[tuple[str, int]], instead: list[str]
) -> None:
    assert place(MODELS[model].profiles, wanted, instances(model, there)) is None
    assert alternatives(MODELS[model].profiles, wanted, instances(model, there)) == instead


def test_a_mix_is_written_as_people_do() -> None:
    assert mix(["3g.20gb", "1g.5gb", "3g.20gb"]) == "2 x 3g.20gb + 1g.5gb"
