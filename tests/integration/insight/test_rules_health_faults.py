"""Rules on the health of a training, on faults where each must fire."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

import numpy as np
import pytest

from tests.support.data.ruled import fired, found, moment
from tests.support.data.trained import Numbers, Training, classes, tensors
from tests.support.world import World

Change = Callable[[Training], None]


@pytest.fixture
def start() -> float:
    return float(time.time() // 100 * 100 - 7200)


def vanishing(training: Training) -> None:
    training.tensors["gradients"].scale(1e-5, 1, slice(40, None))
    training.losses["train_loss"] = training.flat(2.3)
    training.losses["train_loss"][:30] = np.linspace(2.8, 2.3, 30)


def exploding(training: Training) -> None:
    training.tensors["gradients"].scale(1e4, steps=slice(60, 70))


def overflowing(training: Training) -> None:
    training.tensors["gradients"]["nonfinite"][60:] = 1
    for name in ("l1", "l2", "mean", "std", "min", "max"):
        training.tensors["gradients"][name][60:] = np.nan


def nan_weight(training: Training) -> None:
    weights = training.tensors["weights"]
    weights["nonfinite"][50:, 4] = 0.01
    for name in ("min", "max", "mean", "std", "l1", "l2"):
        weights[name][50:, 4] = np.nan


def nan_loss(training: Training) -> None:
    training.losses["train_loss"][80:82] = np.nan


def nan_in_losses(training: Training) -> None:
    """The tensor of losses counts also where the script logs none."""
    losses = tensors(["loss"], [100], training.losses.pop("train_loss")[:, None])
    losses["nonfinite"][30:, 0] = 0.01
    losses["mean"][30:, 0] = np.nan
    training.tensors["losses"] = losses


def too_large_for_a_real(training: Training) -> None:
    """The client's number is finite, and its mean as float32 is not."""
    losses = tensors(["loss"], [1], np.ones((training.steps, 1)))
    losses["mean"][30:] = np.nan
    training.tensors["losses"] = losses


def never_learning(training: Training) -> None:
    training.losses["train_loss"] = training.flat(2.303)


def diverging(training: Training) -> None:
    training.losses["train_loss"] = training.rising(2.3, 0.8, 6.0)


def relapsing(training: Training) -> None:
    training.losses["loss"] = training.rising(2.3, 0.5, 2.0)
    del training.losses["train_loss"]


def overfitting(training: Training) -> None:
    training.losses["val_loss"] = training.rising(2.3, 0.9, 1.8)


def overtraining(training: Training) -> None:
    training.losses["eval/loss"] = training.flat(0.6)
    training.losses["eval/loss"][:40] = np.linspace(2.3, 0.6, 40)


def zero_weight(training: Training) -> None:
    training.tensors["weights"].zero(4, slice(20, None))


def dead(training: Training) -> None:
    training.tensors["relu"].zero(1, slice(50, None))


def saturated(training: Training) -> None:
    outputs = tensors(["gate"], [4096], np.ones((training.steps, 1)))
    outputs["saturated"][10:] = 0.97
    training.tensors["tanh"] = outputs
    training.losses["train_loss"] = training.decreasing(2.3, 2.0)


def wide(training: Training) -> None:
    training.tensors["weights"].scale(100, 4)


def left_out(training: Training) -> None:
    training.tensors["weights"].freeze(4)


def too_fast(training: Training) -> None:
    training.tensors["weights"]["update_ratio"][20:40, 4] = 30


def too_slow(training: Training) -> None:
    training.tensors["weights"]["update_ratio"][20:, 4] = 1e-10


def poorly_initialized(training: Training) -> None:
    training.tensors["relu"].scale(1e-3, 1)
    training.tensors["gradients"].scale(0.01)
    training.losses["train_loss"] = training.flat(2.303)


def exploded_at_once(training: Training) -> None:
    """A far too large learning rate: what follows the first steps is as large, or dead."""
    training.tensors["weights"].scale(1e9, steps=slice(1, None))
    training.losses["train_loss"] = training.flat(44.0)
    training.losses["train_loss"][:2] = 2.3, 1e18


def all_zero(training: Training) -> None:
    training.tensors["weights"].zero(slice(None))
    training.tensors["gradients"].zero(slice(None))
    training.tensors["relu"].zero(slice(None))
    training.losses["train_loss"] = training.flat(2.303)


def imbalanced(training: Training) -> None:
    classes(training, [0.9, 0.07, 0.03], [0.98, 0.8, 0.1])


@pytest.mark.parametrize(
    ("rule", "fault", "first", "last", "evidence"),
    [
        ("VanishingGradient", vanishing, 41, None, {"tensors": ["conv.weight"], "count": 1, "step": 40}),
        ("ExplodingTensor", exploding, 61, 70, {"tensors": ["gradients"], "count": 1, "step": 60}),
        ("ExplodingTensor", overflowing, 61, None, {"tensors": ["gradients"], "step": 60}),
        ("ExplodingTensor", exploded_at_once, 2, None, {"tensors": ["weights"], "count": 1, "step": 1}),
        ("LossNotDecreasing", exploded_at_once, None, None, {"first": 2.3}),
        ("PoorWeightInitialization", all_zero, 1, 10, {"of": "weights", "alike": 4}),
        ("NonFinite", nan_weight, 51, None, {"collection": "weights", "tensors": ["fc.weight"], "count": 1, "step": 50}),
        ("NonFinite", overflowing, 61, None, {"collection": "gradients", "count": 6, "step": 60, "share": 1}),
        ("NonFinite", nan_loss, 81, 82, {"collection": "losses", "tensors": ["train_loss"], "step": 80}),
        ("NonFinite", nan_in_losses, 31, None, {"collection": "losses", "step": 30}),
        ("NonFinite", too_large_for_a_real, 31, None, {"collection": "losses", "step": 30}),
        ("LossNotDecreasing", never_learning, 31, None, {"step": 30}),
        ("LossNotDecreasing", diverging, None, None, {}),
        ("LossNotDecreasing", relapsing, None, None, {}),
        ("Overfit", overfitting, None, None, {}),
        ("Overtraining", overfitting, None, None, {}),
        ("Overtraining", overtraining, None, None, {}),
        ("AllZero", zero_weight, 21, None, {"tensors": ["weights fc.weight"], "count": 1, "step": 20, "zeros": 1}),
        ("DeadRelu", dead, 51, None, {"tensors": ["fc"], "count": 1, "step": 50, "zeros": 1}),
        ("SaturatedActivation", saturated, 11, None, {"tensors": ["gate"], "count": 1, "step": 10}),
        ("TensorVariance", wide, 1, None, {"tensors": ["fc.weight"], "count": 1, "step": 0}),
        ("UnchangedTensor", left_out, 2, None, {"tensors": ["fc.weight"], "count": 1, "step": 1}),
        ("WeightUpdateRatio", too_fast, 21, 40, {"tensors": ["fc.weight"], "count": 1, "step": 20, "ratio": 30}),
        ("WeightUpdateRatio", too_slow, 21, None, {"tensors": ["fc.weight"], "count": 1, "step": 20}),
        ("PoorWeightInitialization", poorly_initialized, 1, 10, {"of": "activations"}),
        ("ClassImbalance", imbalanced, None, None, {"classes": ["2"], "count": 1}),
    ],
)  # fmt: skip
def test_a_fault_is_found_where_it_is(
    world: World,
    start: float,
    rule: str,
    fault: Change,
    first: int | None,
    last: int | None,
    evidence: dict[str, object],
) -> None:
    training = Training()
    fault(training)
    every = fired(world, start, training)
    assert rule in every
    [firing] = every[rule]
    if first is not None:
        assert firing.started_at == moment(start + training.every * first)
        assert firing.ended_at == (None if last is None else moment(start + training.every * last))
    assert {key: firing.evidence.get(key) for key in evidence} == evidence


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("noise", [0.01, 0.03])
def test_a_validation_loss_that_rises_steadily_overfits(world: World, start: float, seed: int, noise: float) -> None:
    training = Training(steps=50, seed=seed)
    training.losses["val_loss"] = training.rising(1.0, 0.5, 0.62, noise)
    training.losses["train_loss"] = training.decreasing(1.0, 0.2)
    [firing] = fired(world, start, training)["Overfit"]
    assert firing.ended_at is None


def test_few_evaluations_suffice_to_overfit(world: World, start: float) -> None:
    training = Training(steps=8)
    training.losses["val_loss"] = np.array([1.2, 0.9, 0.8, 0.84, 0.92, 1.01, 1.1, 1.2])
    training.losses["train_loss"] = np.array([1.1, 0.8, 0.6, 0.5, 0.4, 0.33, 0.28, 0.24])
    assert "Overfit" in fired(world, start, training)


@pytest.mark.parametrize("stays", [2.3, 6.0])
def test_a_loss_that_jumps_up_and_stays_does_not_decrease(world: World, start: float, stays: float) -> None:
    training = Training()
    training.losses["train_loss"][50:] = training.flat(stays)[50:]
    [firing] = fired(world, start, training)["LossNotDecreasing"]
    assert firing.started_at >= moment(start + 510)
    assert firing.ended_at is None


def test_a_fold_that_does_not_learn_is_found(world: World, start: float) -> None:
    training = Training(steps=180)
    fold = Training(steps=60).decreasing(2.3, 0.3)
    training.losses["train_loss"] = np.concatenate([fold, training.flat(2.3)[:60], fold])
    [firing] = fired(world, start, training)["LossNotDecreasing"]
    assert firing.started_at > moment(start + 600)
    assert firing.ended_at is not None
    assert abs(firing.ended_at - moment(start + 1200)) < timedelta(seconds=100)


@pytest.mark.parametrize(
    ("rule", "fault"), [("UnchangedTensor", left_out), ("AllZero", all_zero), ("ExplodingTensor", exploded_at_once)]
)
def test_few_watched_steps_far_apart_suffice(world: World, start: float, rule: str, fault: Change) -> None:
    training = Training(steps=7, stride=100)
    fault(training)
    assert rule in fired(world, start, training)


@pytest.mark.parametrize("value", [2.3026, 40.0])
def test_no_checkpoint_of_a_net_that_never_learned_is_the_best(world: World, start: float, value: float) -> None:
    training = Training(steps=60)
    for name in ("train_loss", "val_loss"):
        training.losses[name] = training.flat(value, 0.002)
    training.losses["train_loss"][0] = 2.3026
    every = fired(world, start, training)
    assert "Overtraining" not in every
    assert "LossNotDecreasing" in every


@pytest.mark.parametrize(
    ("train", "validation", "stops"),
    [
        # Random labels, learned by heart: the outputs get the labels' frequencies first.
        (np.geomspace(2.4, 0.05, 60), np.append([2.34, 2.31], np.linspace(2.31, 4.5, 58)), False),
        # Trees: the first losses are those after a first tree, and later ones learn noise.
        (np.geomspace(0.34, 0.001, 60), np.append([0.64, 0.645], np.linspace(0.65, 1.5, 58)), True),
        # A small data set: the validation loss falls little, and from an epoch's end on.
        (np.geomspace(1.44, 0.03, 60), np.append([1.35, 1.31], np.linspace(1.4, 3.7, 58)), True),
    ],
)
def test_a_rising_validation_loss_stops_trainings_that_learned(
    world: World, start: float, train: Numbers, validation: Numbers, stops: bool
) -> None:
    training = Training(steps=60)
    training.losses = {"train_loss": train, "val_loss": validation}
    assert ("Overtraining" in fired(world, start, training)) == stops


def test_weights_that_begin_near_zero_do_not_explode(world: World, start: float) -> None:
    """A regression on large values: the loss falls, while the weights grow by far."""
    training = Training()
    growth = np.minimum(1e-3 * 1.3 ** np.arange(training.steps), 1e4)[:, None]
    for name in ("min", "max", "mean", "std", "l1", "l2"):
        training.tensors["weights"].columns[name] *= growth
    assert "ExplodingTensor" not in fired(world, start, training)


@pytest.mark.parametrize("seed", range(4))
def test_a_loss_far_above_its_start_has_exploded_whatever_its_noise(world: World, start: float, seed: int) -> None:
    """Adam with a learning rate of 1: from 100 to 2 million times the first loss, without a trend."""
    training = Training(steps=49, stride=10, seed=seed)
    training.losses["train_loss"] = 3.88 * 10 ** np.random.default_rng(seed).uniform(2, 6.3, 49)
    training.losses["train_loss"][0] = 3.88
    [firing] = fired(world, start, training)["LossNotDecreasing"]
    assert (firing.started_at, firing.ended_at) == (moment(start + 20), None)
    assert firing.evidence["first"] == 3.88


@pytest.mark.parametrize(
    "losses",
    [
        [1.39, 1.74, 1.71, 1.73, 1.70, 1.71, 1.72, 1.71],
        [1.39, 250.0, 2.1, 1.72, 1.70, 1.71, 1.72, 1.71],
        [2.303, 2.304, 2.303, 2.302, 2.303, 2.304, 2.303],
        [0.7, 9e5, 4e2, 7e6, 3e4, 8e3, 2e6, 7e4],
    ],
)
def test_few_losses_far_apart_suffice_once_the_run_has_ended(world: World, start: float, losses: list[float]) -> None:
    training = Training(steps=len(losses), stride=100)
    training.losses["train_loss"] = np.array(losses)
    [firing] = fired(world, start, training)["LossNotDecreasing"]
    assert firing.ended_at is None
    run = world.run(start, workload=2)
    training.write(world, run, start)
    assert not found(world, "LossNotDecreasing", run, start, start + 10 * (len(losses) + 1))


@pytest.mark.parametrize(
    ("steps", "change"), [(3, all_zero), (10, all_zero), (4, poorly_initialized), (10, poorly_initialized)]
)
def test_few_watched_steps_show_a_poor_initialization(world: World, start: float, steps: int, change: Change) -> None:
    training = Training(steps=steps, stride=100)
    change(training)
    training.losses["train_loss"] = training.flat(2.303, 0.001)
    [firing] = fired(world, start, training)["PoorWeightInitialization"]
    assert (firing.started_at, firing.ended_at) == (moment(start + 10), moment(start + 10 * steps))
