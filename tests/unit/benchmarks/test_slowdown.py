"""Results from windows of a training."""

from __future__ import annotations

import itertools
import math
from random import Random

import numpy as np
import pytest

from benchmarks.measurement.slowdown import MeasuredBlock, results
from benchmarks.measurement.windows import Block, Window, planned

RATE = 1000.0
SHARES = {"exporters": 0.001, "collector": 0.002}


def _measured(count: int, slow_down: float, noise: float, steal: float = 0.0) -> list[MeasuredBlock]:
    random = np.random.default_rng(7)

    def window(block: Block, on: bool) -> Window:
        lost = steal * random.random()
        slower = (1 + slow_down) ** (on and not block.placebo) * math.exp(random.normal(0, noise))
        rate = RATE * (1 - lost) / slower
        return Window(rate, cpu_seconds=8.0 * rate / RATE * (1.001 if on and not block.placebo else 1), steal=lost)

    blocks = itertools.islice(planned(Random(1)), count)
    return [MeasuredBlock(block, [window(block, on) for on in block.on]) for block in blocks]


def test_a_known_slow_down_is_found() -> None:
    found = results(_measured(120, 0.004, 0.005, steal=0.05), SHARES)
    assert found["resolved"] == "resolved"
    assert float(found["slow_down_low"]) < 0.004 < float(found["slow_down_high"])
    assert float(found["slow_down_high"]) - float(found["slow_down_low"]) < 0.003
    assert float(found["placebo_low"]) < 0 < float(found["placebo_high"])
    assert float(found["plain_high"]) - float(found["plain_low"]) > 2 * (
        float(found["slow_down_high"]) - float(found["slow_down_low"])
    )
    assert (found["blocks"], found["placebo_blocks"]) == (80, 40)


def test_cpu_time_accounts_for_the_slow_down() -> None:
    found = results(_measured(30, 0.004, 0.0), SHARES)
    assert found["cpu_per_step"] == pytest.approx(0.001)
    assert found["accounted"] == pytest.approx(1.001 / 0.997 - 1)
    assert found["slow_down"] == pytest.approx(0.004)


def test_noise_is_not_resolved() -> None:
    assert results(_measured(30, 0.004, 0.05), SHARES)["resolved"] == "not resolved"


def test_an_unknown_account_hides_no_other_result() -> None:
    found = results(_measured(30, 0.004, 0.0), {"exporters": 0.001, "database": math.nan})
    assert found["resolved"] == "resolved"
    assert math.isnan(float(found["accounted"]))
