"""Rules on the health of a training: on sound trainings, where none may fire, and on any data."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from tests.support.data.ruled import HEALTH, fired, found, moment
from tests.support.data.trained import NAMES, SIZES, Collection, Training, classes, tensors, write_tensors
from tests.support.world import World

Change = Callable[[Training], None]


@pytest.fixture
def start() -> float:
    return float(time.time() // 100 * 100 - 7200)


def as_usual(training: Training) -> None:
    pass


def converged(training: Training) -> None:
    training.losses["train_loss"] = training.decreasing(2.3, 0.02, pace=10)
    training.losses["val_loss"] = training.decreasing(2.3, 0.021, pace=10)
    training.tensors["gradients"].scale(1e-5, steps=slice(70, None))


def loss_near_zero(training: Training) -> None:
    training.losses["loss"] = training.decreasing(2.3, 1e-6, noise=0.5, pace=20)
    training.losses["val_loss"] = training.decreasing(2.3, 1e-5, noise=0.5, pace=20)
    del training.losses["train_loss"]


def frozen_layers(training: Training) -> None:
    """Fine-tuning: the first layers have no gradients, and do not change."""
    training.tensors["weights"].freeze(slice(0, 4))
    gradients = training.tensors["gradients"]
    training.tensors["gradients"] = Collection(
        NAMES[4:], SIZES[4:], {name: one[:, 4:] for name, one in gradients.columns.items()}
    )
    training.losses["train_loss"] = training.decreasing(0.9, 0.8)


def adapters(training: Training) -> None:
    """LoRA: one factor begins as zero, so the other's gradient is zero at the first step."""
    training.tensors["weights"].zero(4, slice(0, 2))
    training.tensors["gradients"].zero(1, slice(0, 2))


def loss_scale(training: Training) -> None:
    """The first steps overflow, and single ones later; the scaler skips them."""
    for steps in (slice(0, 6), slice(40, 41), slice(80, 81)):
        for name in ("l1", "l2", "mean", "std", "min", "max"):
            training.tensors["gradients"][name][steps] = np.nan
        training.tensors["gradients"]["nonfinite"][steps] = 0.2
        training.tensors["weights"].freeze(slice(None), slice(max(steps.start - 1, 0), steps.stop))


def spikes(training: Training) -> None:
    training.tensors["gradients"].scale(3e3, steps=slice(50, 51))
    training.losses["train_loss"][50] = 9.0


def accumulating(training: Training) -> None:
    """Weights change at every fourth watched step."""
    for at in range(0, training.steps, 4):
        training.tensors["weights"].freeze(slice(None), slice(at, at + 4))


def warming_up(training: Training) -> None:
    training.losses["train_loss"] = training.decreasing(2.3, 0.4)
    training.losses["train_loss"][20:] = training.losses["train_loss"][:-20]
    training.losses["train_loss"][:20] = training.flat(2.3)[:20]
    training.tensors["weights"].freeze(slice(None), slice(0, 1))
    training.tensors["weights"]["update_ratio"][:3] = 1e-9


def sparse(training: Training) -> None:
    training.tensors["relu"]["zeros"][:] = 0.93


def confident(training: Training) -> None:
    """A good binary classifier has outputs near 0 and 1."""
    outputs = tensors(["output"], [64], np.ones((training.steps, 1)))
    outputs["saturated"][:, 0] = np.linspace(0, 1.4, training.steps).clip(max=0.99)
    training.tensors["sigmoid"] = outputs
    training.losses["train_loss"] = training.decreasing(0.69, 0.05)


def noisy(training: Training) -> None:
    training.losses["train_loss"] = training.decreasing(2.3, 1.2, noise=0.3)
    training.losses["val_loss"] = training.decreasing(2.5, 1.4, noise=0.02)


def gap(training: Training) -> None:
    """The validation loss is above the training loss, and no more than that."""
    training.losses["val_loss"] = training.decreasing(2.6, 0.7, noise=0.02)


def smoothed_labels(training: Training) -> None:
    """With label smoothing and dropout, the training loss is the higher one, and far from zero."""
    training.losses["train_loss"] = training.decreasing(2.3, 1.1)
    training.losses["val_loss"] = training.decreasing(2.2, 0.8, noise=0.01)


def adversarial(training: Training) -> None:
    training.losses = {
        "g_loss": training.rising(0.7, 0.6, 4.0),
        "d_loss": training.flat(0.69, 0.3),
        "kl_loss": training.flat(0.1),
    }


def negative(training: Training) -> None:
    training.losses["train_loss"] = training.decreasing(2.3, 0.3) - 3.0


def balanced(training: Training) -> None:
    classes(training, [0.4, 0.35, 0.25], [0.9, 0.1, 0.8])


def rare_but_right(training: Training) -> None:
    classes(training, [0.95, 0.04, 0.01], [0.99, 0.8, 0.7])


def hardly_trained(training: Training) -> None:
    training.steps = 3
    for one in training.tensors.values():
        one.columns = {name: column[:3] for name, column in one.columns.items()}
    training.losses = {name: values[:3] for name, values in training.losses.items()}


def decaying(training: Training) -> None:
    """The learning rate decays to zero."""
    training.tensors["weights"].freeze(slice(None), slice(training.steps - 4, None))
    training.tensors["weights"]["update_ratio"][-8:-4] = 1e-9


def pretrained(training: Training) -> None:
    """The loss decreases slowly, from a good start."""
    training.losses["train_loss"] = (
        2.5 * (1 - 0.04 * np.arange(training.steps) / training.steps) * training.flat(1, 0.003)
    )


def folds(training: Training) -> None:
    """Several trainings in one run: the loss of each begins high."""
    training.losses["train_loss"] = np.concatenate(
        [Training(steps=50, seed=training.seed + at).decreasing(2.3, 0.3) for at in range(2)]
    )


def fast_folds(training: Training) -> None:
    training.losses["train_loss"] = np.concatenate(
        [Training(steps=50, seed=training.seed + at).decreasing(2.3, 0.3, pace=15) for at in range(2)]
    )


@pytest.mark.parametrize(
    "sound",
    [
        as_usual, converged, loss_near_zero, frozen_layers, adapters, loss_scale, spikes, accumulating, warming_up, sparse,
        confident, noisy, gap, smoothed_labels, adversarial, negative, balanced, rare_but_right, hardly_trained, decaying, pretrained,
        folds, fast_folds,
    ],
)  # fmt: skip
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_rule_fires_on_a_sound_training(world: World, start: float, sound: Change, seed: int) -> None:
    training = Training(seed=seed)
    sound(training)
    assert {name: [one.evidence for one in firings] for name, firings in fired(world, start, training).items()} == {}


@pytest.mark.parametrize("steps", [3, 5, 8, 15])
@pytest.mark.parametrize(
    "sound",
    [as_usual, converged, loss_near_zero, frozen_layers, adapters, accumulating, noisy, gap, smoothed_labels, adversarial, negative,
     pretrained],
)  # fmt: skip
def test_no_rule_fires_on_a_sound_training_of_few_watched_steps(
    world: World, start: float, sound: Change, steps: int
) -> None:
    training = Training(steps=steps, stride=100)
    sound(training)
    assert {name: [one.evidence for one in firings] for name, firings in fired(world, start, training).items()} == {}


@pytest.mark.parametrize(
    "losses",
    [
        [2.3, 2.31, 2.3, 2.25, 1.9, 1.6, 1.4, 1.3],  # the learning rate warms up
        [2.3, 60.0, 9.0, 2.4, 2.0, 1.7, 1.5, 1.4],
        [2.3, 1.9, 1.6, 900.0, 2.0, 1.4, 1.3, 1.2],
        [0.0, 2.1, 1.6, 1.2, 1.1, 1.1, 1.1, 1.1],
        [1e-5, 0.8, 0.5, 0.42, 0.4, 0.4, 0.4, 0.4],
        [0.3, 0.45, 0.44, 0.43, 0.42, 0.42, 0.41, 0.41],  # of an easy first batch
        [0.02, -0.4, -0.9, -1.2, -1.5, -1.7, -1.8, -1.9],
        [3e-4, 2e-4, 1e-4, 1e-4, 1e-4, 1e-4, 1e-4, 1e-4],
    ],
)  # fmt: skip
def test_the_few_losses_of_a_sound_training_are_silent(world: World, start: float, losses: list[float]) -> None:
    training = Training(steps=len(losses), stride=100)
    training.losses["train_loss"] = np.array(losses)
    assert "LossNotDecreasing" not in fired(world, start, training)


@pytest.mark.parametrize(
    ("first", "later"),
    [({0: 0.0}, 1.0), ({0: 1e-5}, 1.0), ({20: 900.0, 21: 5e4, 22: 700.0, 23: 80.0}, 1.0), ({0: 0.0}, 1e-6)],
)
def test_a_loss_that_begins_tiny_or_recovers_from_spikes_is_sound(
    world: World, start: float, first: dict[int, float], later: float
) -> None:
    training = Training()
    training.losses["train_loss"] = later * training.decreasing(2.3, 0.3, pace=8)
    for number, value in first.items():
        training.losses["train_loss"][number] = value
    assert "LossNotDecreasing" not in fired(world, start, training)


@pytest.mark.parametrize("prefixes", [("g.", "d."), ("", "")])
@pytest.mark.parametrize("count", [8, 60])
def test_losses_of_models_that_train_together_are_parts(
    world: World, start: float, prefixes: tuple[str, str], count: int
) -> None:
    run = world.run(start, start + 10 * (count + 1))
    for number, prefix in enumerate(prefixes):
        one = tensors([f"{prefix}loss"], [1], np.ones((count, 1)))
        one["mean"][:, 0] = np.linspace(0.7, 1 + number, count)
        times = [start + 10 * (1 + at) + number for at in range(count)]
        write_tensors(world, run, f"7f-c0ffee-{number + 1}-{number}", "losses", one, times, stride=100)
    assert not found(world, "LossNotDecreasing", run, start, start + 10 * (count + 1))
    alone = world.run(start, start + 10 * (count + 1), workload=2)
    one["mean"][:, 0] = np.linspace(0.7, 1.4, count)
    times = [start + 10 * (1 + at) for at in range(count)]
    write_tensors(world, alone, "7f-c0ffee-1-1", "losses", one, times, stride=100)
    assert found(world, "LossNotDecreasing", alone, start, start + 10 * (count + 1))


def test_only_a_parameter_without_effect_makes_runs_similar(world: World, start: float) -> None:
    given = [("0.1", 5), ("0.1", 5), ("0.2", 5), ("0.3", 6)]
    stop = start + 1010
    names = []
    for at, (rate, seed) in enumerate(given):
        run = world.run(start + at, stop, workload=at + 1)
        world.connection.execute(
            "update runs set params = jsonb_build_object('lr', %s::text, 'n', 1) where run_id = %s", (rate, run)
        )
        Training(seed=seed).write(world, run, start + at)
        names.append(run)
    every = [found(world, "SimilarAcrossRuns", run, start, stop) for run in names]
    assert [len(one) for one in every] == [0, 0, 1, 0]  # repetitions and other results are no reason
    assert every[2][0].evidence == {"run": "20/1/1", "steps": 100, "parameters": ["lr"]}


@pytest.mark.parametrize("seed", range(8))
def test_noise_on_a_plateau_is_no_overfitting(world: World, start: float, seed: int) -> None:
    training = Training(steps=50, seed=seed)
    training.losses = {"val_loss": training.flat(0.5, 0.03), "train_loss": training.flat(0.4, 0.01)}
    assert "Overfit" not in fired(world, start, training)


def dead(training: Training) -> None:
    training.tensors["relu"].zero(1, slice(50, None))


def test_a_rule_reads_the_window_of_a_running_run(world: World, start: float) -> None:
    training = Training()
    dead(training)
    run = world.run(start)
    training.write(world, run, start)
    [firing] = found(world, "DeadRelu", run, start + 700, start + 900)
    assert (firing.started_at, firing.ended_at) == (moment(start + 700), None)
    assert not found(world, "DeadRelu", run, start, start + 500)


def test_a_rule_thins_out_what_is_too_much(world: World, start: float) -> None:
    training = Training()
    dead(training)
    run = world.run(start, start + 1010)
    training.write(world, run, start)
    [(places, watched, newest)] = world.connection.execute(
        "select count(*), max(watched), max(step) from rule_tensors(%s, '-infinity', 'infinity', '{relu}', 50)", (run,)
    ).fetchall()
    assert (places, watched, newest) == (26, 100, 99)  # every fourth, and the newest


def test_a_loss_in_several_sets_is_one_series(world: World, start: float) -> None:
    """A step with a validation has both losses in a set, another one has the training loss alone."""
    run = world.run(start, start + 1010)
    times = [start + 10 * at for at in range(100)]
    both, alone = times[9::10], [at for at in times if at not in times[9::10]]
    for name, names, of, first in (("7f-1", ["loss"], alone, 0), ("7f-2", ["loss", "val_loss"], both, 100)):
        write_tensors(
            world, run, name, "losses", tensors(names, [1] * len(names), np.ones((len(of), len(names)))), of, first
        )
    counts = "select kind, count(*) from rule_losses(%s, '-infinity', 'infinity') where preferred group by kind order by kind"
    assert world.connection.execute(counts.encode(), (run,)).fetchall() == [("train", 100), ("validation", 10)]


@pytest.mark.parametrize("seed", range(6))
def test_no_rule_fails_on_any_data(world: World, start: float, seed: int) -> None:
    random = np.random.default_rng(seed)
    training = Training(steps=40, seed=seed)
    training.tensors["tanh"] = tensors(["a", "bias"], [1, 0], np.ones((40, 2)))
    training.tensors["losses"] = tensors(["loss", "val_loss"], [7, 1], np.ones((40, 2)))
    classes(training, [0.5, 0.5], [0.5, 0.5])
    training.losses |= {"val_loss": training.flat(1), "loss/epoch": training.flat(1), "loss": training.flat(1)}
    special = [np.nan, 0.0, -0.0, 1.0, -1.0, 3.4e38, -3.4e38, 1e-45, 1e-38]
    for one in training.tensors.values():
        for column in one.columns.values():
            hit = random.random(column.shape) < 0.5
            column[hit] = random.choice(special, hit.sum())
    for values in training.losses.values():
        hit = random.random(values.shape) < 0.5
        values[hit] = random.choice([np.nan, 0.0, 1e150, -1e150, 1e-150, -1.0], hit.sum())
    fired(world, start, training)
    fired(world, start, training, workload=2)


def test_a_run_without_tensors_and_losses_is_silent(world: World, start: float) -> None:
    run = world.run(start, start + 100)
    assert not any(found(world, name, run, start, start + 100) for name in HEALTH)


def test_each_rule_is_described() -> None:
    for rule in HEALTH.values():
        assert rule.means.endswith(".")
        assert rule.advice.endswith(".")
        assert rule.needs
        assert all(parameter.help for parameter in rule.parameters.values())
