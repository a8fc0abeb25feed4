"""Order of windows with measuring on or off, and contrasts between them."""

from __future__ import annotations

import itertools
from random import Random

import pytest

from benchmarks.measurement.windows import PLACEBO_EVERY, Block, contrast, planned


def test_a_drift_cancels_out_in_each_block() -> None:
    blocks = list(itertools.islice(planned(Random(1)), 60))
    for block in blocks:
        assert contrast(block, [10.0, 11.0, 12.0, 13.0]) == 0
        assert sum(block.on) == 2
    assert {block.on for block in blocks} == {(True, False, False, True), (False, True, True, False)}


def test_each_three_blocks_have_a_placebo_that_switches_nothing() -> None:
    blocks = list(itertools.islice(planned(Random(1)), 30 * PLACEBO_EVERY))
    groups = [blocks[at : at + PLACEBO_EVERY] for at in range(0, len(blocks), PLACEBO_EVERY)]
    assert all(sum(block.placebo for block in group) == 1 for group in groups)
    assert len({[block.placebo for block in group].index(True) for group in groups}) == PLACEBO_EVERY
    for block in blocks:
        assert block.measured == ((True,) * 4 if block.placebo else block.on)


def test_measuring_is_never_off_for_longer_than_two_windows() -> None:
    states = [on for block in itertools.islice(planned(Random(1)), 500) for on in block.measured]
    assert max(len(list(group)) for on, group in itertools.groupby(states) if not on) == 2


def test_a_seed_repeats_the_order() -> None:
    orders = [list(itertools.islice(planned(Random(seed)), 30)) for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]


@pytest.mark.parametrize("first", [True, False])
def test_contrast(first: bool) -> None:
    block = Block((first, not first, not first, first), placebo=False)
    assert contrast(block, [5.0 if on else 3.0 for on in block.on]) == 2
