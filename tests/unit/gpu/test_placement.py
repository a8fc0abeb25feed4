"""Placement of MIG instances beside existing ones."""

from __future__ import annotations

import itertools

import pytest

from hypergauge.gpu.models import MODELS, Profile
from hypergauge.gpu.placement import place


def instances(model: str, there: list[tuple[str, int]]) -> list[tuple[Profile, int]]:
    known = {profile.name: profile for profile in MODELS[model].profiles}
    return [(known[name], start) for name, start in there]


@pytest.mark.parametrize(
    ("model", "wanted", "there", "starts"),
    [
        ("A100", ["7g.40gb"], [], [0]),
        ("A100", ["3g.20gb", "3g.20gb"], [], [4, 0]),
        ("A100", ["3g.20gb", "4g.20gb"], [], [4, 0]),
        ("A100", ["4g.20gb", "3g.20gb"], [], [0, 4]),
        ("A100", ["1g.5gb"] * 7, [], [6, 5, 4, 3, 2, 1, 0]),
        ("A100", ["1g.5gb"], [], [6]),
        ("A100", ["2g.10gb", "2g.10gb", "2g.10gb", "1g.5gb"], [], [4, 2, 0, 6]),
        ("A100", ["1g.5gb", "3g.20gb"], [], [3, 4]),
        ("A100", ["1g.5gb", "2g.10gb", "3g.20gb"], [], [1, 2, 4]),
        ("A100", ["1g.10gb"] * 4, [], [6, 4, 2, 0]),
        ("A100", ["3g.20gb"], [("3g.20gb", 4)], [0]),
        ("A100", ["3g.20gb"], [("1g.5gb", 6)], [0]),
        ("A100", ["4g.20gb", "1g.5gb"], [("2g.10gb", 4)], [0, 6]),
        ("A100", [], [("7g.40gb", 0)], []),
        ("A30", ["2g.12gb", "2g.12gb"], [], [2, 0]),
        ("A30", ["1g.6gb", "2g.12gb", "1g.6gb"], [], [1, 2, 0]),
        ("A30", ["1g.6gb"] * 4, [], [3, 2, 1, 0]),
        ("A30", ["2g.12gb", "1g.6gb"], [("1g.6gb", 3)], [0, 2]),
        ("H100", ["4g.40gb", "1g.20gb", "1g.20gb"], [], [0, 6, 4]),
        ("H100", ["1g.20gb", "1g.10gb", "1g.10gb"], [("4g.40gb", 0)], [6, 5, 4]),
    ],
)
def test_what_fits(model: str, wanted: list[str], there: list[tuple[str, int]], starts: list[int]) -> None:
    assert place(MODELS[model].profiles, wanted, instances(model, there)) == starts


def test_low_slices_first() -> None:
    profiles = MODELS["A100"].profiles
    assert place(profiles, ["1g.5gb"] * 7, highest_first=False) == [0, 1, 2, 3, 4, 5, 6]
    assert place(profiles, ["3g.20gb", "1g.5gb", "2g.10gb"], highest_first=False) == [0, 6, 4]


def test_placements_are_possible_and_apart() -> None:
    for model in (MODELS["A100"], MODELS["A30"], MODELS["H100"]):
        known = {profile.name: profile for profile in model.profiles}
        for count in range(1, 5):
            for wanted in itertools.combinations_with_replacement(known, count):
                starts = place(model.profiles, wanted)
                if starts is None:
                    continue
                slices = [
                    number
                    for name, start in zip(wanted, starts, strict=True)
                    for number in range(start, start + known[name].memory)
                ]
                assert all(start in known[name].starts for name, start in zip(wanted, starts, strict=True))
                assert len(set(slices)) == len(slices) <= model.memory_slices
                assert sum(known[name].compute for name in wanted) <= model.compute_slices
