"""Rules on losses of several models that one process trains one after the other."""

from __future__ import annotations

import time

import numpy as np
import pytest

from hypergauge.insight.rules import Firing
from tests.support.data.ruled import found, moment
from tests.support.data.trained import Numbers, Training, tensors, write_tensors
from tests.support.world import World

STEPS = 40
RULES = ("LossNotDecreasing", "Overfit", "Overtraining")
Fold = tuple[Numbers, Numbers]


@pytest.fixture
def start() -> float:
    return float(time.time() // 100 * 100 - 7200)


def sound(last: float) -> Fold:
    """Return the losses of a training and of its validation, which comes close to `last`."""
    training = Training(steps=STEPS)
    return training.decreasing(1.5, 0.9 * last, noise=0.005), training.decreasing(1.6, last, noise=0.005)


def fired(world: World, start: float, folds: list[Fold], *, models: bool = True) -> dict[str, list[Firing]]:
    """Return the firings of the rules on folds of 400 s."""
    stop = start + 10 * STEPS * len(folds) + 10
    run = world.run(start, stop, workload=1 + models)
    parts = list(enumerate(folds))
    if not models:
        parts = [(0, (np.concatenate([one for one, _ in folds]), np.concatenate([one for _, one in folds])))]
    for number, (train, validation) in parts:
        one = tensors(["loss", "val_loss"], [1, 1], np.ones((len(train), 2)))
        one["mean"][:] = np.stack([train, validation], axis=1)
        first = STEPS * number
        times = [start + 10 * (1 + first + at) for at in range(len(train))]
        write_tensors(world, run, f"7f-c0ffee-{number + 1}-{number}", "losses", one, times, first)
    every = {name: found(world, name, run, start, stop) for name in RULES}
    return {name: firings for name, firings in every.items() if firings}


def test_a_fold_is_compared_with_itself_alone(world: World, start: float) -> None:
    folds = [sound(0.4), sound(0.7), sound(0.5)]
    assert fired(world, start, folds) == {}
    # Together, the second fold looks as if the training had stopped to improve.
    assert "Overtraining" in fired(world, start, folds, models=False)


def test_a_fold_that_overfits_is_found_where_it_is(world: World, start: float) -> None:
    training = Training(steps=STEPS)
    overfit = training.decreasing(1.5, 0.05), training.rising(1.6, 0.8, 2.0)
    found = fired(world, start, [sound(0.4), overfit, sound(0.4)])
    assert set(found) == {"Overfit", "Overtraining"}
    for [firing] in found.values():
        assert moment(start + 400) < firing.started_at < moment(start + 800)
        assert firing.ended_at is not None
        assert firing.ended_at <= moment(start + 810)


def test_a_fold_that_does_not_learn_is_found(world: World, start: float) -> None:
    flat = Training(steps=STEPS).flat(1.5)
    found = fired(world, start, [sound(0.4), (flat, flat), sound(0.4)])
    [firing] = found["LossNotDecreasing"]
    assert moment(start + 400) < firing.started_at < moment(start + 800)
