"""Rules across both halves of a training, its steps and its hardware, on runs where they must fire, and where they must not."""

from __future__ import annotations

import time

import numpy as np
import pytest

from tests.support.data.ruled import GPUS, cpu, found, gpu, moment
from tests.support.data.trained import Training, phases, steps
from tests.support.world import World


@pytest.fixture
def start() -> float:
    return float(time.time() // 100 * 100 - 7200)


def test_data_bound_step(world: World, start: float) -> None:
    run = world.run(start, start + 600)
    waits = [0.05] * 100 + [0.5] * 200 + [0.05] * 300
    steps(world, run, start, [1.0] * 600, waits)
    [firing] = found(world, "DataBoundStep", run, start, start + 600)
    assert (firing.started_at, firing.ended_at) == (moment(start + 90), moment(start + 300))
    assert firing.evidence == {
        "share": pytest.approx(0.478, abs=0.03),
        "waited_seconds": pytest.approx(100, abs=5),
        "steps": 210,
    }
    assert not found(world, "DataBoundStep", run, start, start + 600, threshold=0.6)
    assert not found(world, "DataBoundStep", run, start, start + 600, minimum_duration="4 min")


@pytest.mark.parametrize(
    ("seconds", "waits"),
    [
        ([20.0] + [1.0] * 300, [20.0] + [0.1] * 300),  # the workers start in the first step
        ([1.0] * 300, [None] * 300),  # nothing is known
        ([1.0] * 300, [0.05, None] * 150),  # some waits are unknown
        ([1.0] * 8, [0.9] * 8),  # very short
        ([1.0, 5.0] * 100, [0.0, 1.2] * 100),  # 20 %
    ],
)
def test_steps_that_compute_are_not_bound_by_data(
    world: World, start: float, seconds: list[float], waits: list[float | None]
) -> None:
    run = world.run(start, start + sum(seconds))
    steps(world, run, start, seconds, waits)
    assert not found(world, "DataBoundStep", run, start, start + sum(seconds))


def test_long_steps_may_be_bound_by_data(world: World, start: float) -> None:
    run = world.run(start, start + 2000)
    steps(world, run, start, [50.0] * 40, [30.0] * 40)
    [firing] = found(world, "DataBoundStep", run, start, start + 2000)
    assert firing.evidence["share"] == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("seconds", "wait", "ended", "fires"),
    [(0.1, 0.09, True, True), (0.1, 0.09, False, False), (0.3, 0.25, False, True), (0.1, 0.04, True, False)],
)
def test_a_short_training_starves(
    world: World, start: float, seconds: float, wait: float, ended: bool, fires: bool
) -> None:
    stop = start + 5 + 100 * seconds
    run = world.run(start, stop) if ended else world.run(start)
    steps(world, run, start + 5, [seconds] * 100, [wait] * 100)
    every = found(world, "DataBoundStep", run, start, stop)
    assert bool(every) == fires
    if fires:
        assert every[0].evidence["share"] == pytest.approx(wait / seconds, abs=0.02)


@pytest.mark.parametrize(("cores", "busy_gpu", "fires"), [(0.0, 0.0, True), (1.0, 0.0, False), (0.0, 1.0, False)])
def test_blocked_processes_are_a_stall_soon(
    world: World, start: float, cores: float, busy_gpu: float, fires: bool
) -> None:
    run = world.run(start, gpu=GPUS[0])
    steps(world, run, start, [0.1] * 200, [0.0] * 200)
    cpu(world, run, start, [1.0] * 20 + [cores] * 80)
    gpu(world, start, [0.9] * 20 + [busy_gpu] * 80)
    every = found(world, "StalledTraining", run, start, start + 100)
    assert bool(every) == fires
    if fires:
        assert (every[0].started_at, every[0].ended_at) == (moment(start + 20), None)
    assert not found(world, "StalledTraining", run, start, start + 45)


def test_without_samples_a_short_pause_is_no_stall(world: World, start: float) -> None:
    run = world.run(start)
    steps(world, run, start, [0.1] * 200, [0.0] * 200)
    assert not found(world, "StalledTraining", run, start, start + 100)


def test_stalled_training(world: World, start: float) -> None:
    run = world.run(start)
    steps(world, run, start, [1.0] * 100, [0.0] * 100)
    [firing] = found(world, "StalledTraining", run, start, start + 2000)
    assert (firing.started_at, firing.ended_at) == (moment(start + 100), None)
    assert firing.evidence == {"seconds": 1900, "step": 99}
    assert not found(world, "StalledTraining", run, start, start + 1800)
    assert not found(world, "StalledTraining", run, start, start + 2000, threshold="40 min")


def test_a_stall_ends_with_the_next_step(world: World, start: float) -> None:
    run = world.run(start, start + 3000)
    steps(world, run, start, [1.0] * 100 + [2500.0] + [1.0] * 100, [0.0] * 201)
    [firing] = found(world, "StalledTraining", run, start, start + 3000)
    assert (firing.started_at, firing.ended_at) == (moment(start + 100), moment(start + 2600))


def test_long_steps_and_preparations_are_no_stall(world: World, start: float) -> None:
    preparing = world.run(start)
    phases(world, preparing, {"prepare": [(start, None)]})
    assert not found(world, "StalledTraining", preparing, start, start + 5000)
    slow = world.run(start, workload=2)
    steps(world, slow, start, [1900.0] * 3, [0.0] * 3)
    assert not found(world, "StalledTraining", slow, start + 1900, start + 5700 + 1850)


@pytest.mark.parametrize(
    ("name", "begins", "fires"),
    [
        ("evaluate", 100, False),
        ("checkpoint", 100, False),
        ("train", 100, True),
        ("all", 0, True),
        ("evaluate", 60, True),
    ],
)
def test_a_long_evaluation_is_no_stall(world: World, start: float, name: str, begins: float, fires: bool) -> None:
    """Unless steps end within the phase."""
    run = world.run(start)
    steps(world, run, start, [1.0] * 100, [0.0] * 100)
    phases(world, run, {name: [(start + begins, None)]})
    assert bool(found(world, "StalledTraining", run, start, start + 2000)) == fires


def test_a_long_evaluation_allows_no_long_stall(world: World, start: float) -> None:
    run = world.run(start)
    steps(world, run, start, [1.0] * 100, [0.0] * 100)
    phases(world, run, {"evaluate": [(start + 100, start + 2000)]})
    [firing] = found(world, "StalledTraining", run, start, start + 5000)
    assert (firing.started_at, firing.ended_at) == (moment(start + 2000), None)


def test_checkpoint_stall(world: World, start: float) -> None:
    run = world.run(start, start + 600)
    steps(world, run, start, [1.0] * 600, [0.0] * 600)
    phases(
        world,
        run,
        {"checkpoint": [(start + at, start + at + 20) for at in (100, 200, 300)], "train": [(start, start + 600)]},
    )
    [firing] = found(world, "CheckpointStall", run, start, start + 600)
    assert (firing.started_at, firing.ended_at) == (moment(start + 100), moment(start + 320))
    assert firing.evidence == {"share": 0.1875, "seconds": 60, "checkpoints": 3}
    assert not found(world, "CheckpointStall", run, start, start + 600, threshold=0.2)
    once = world.run(start, start + 100, workload=2)
    steps(world, once, start, [1.0] * 50, [0.0] * 50)
    phases(world, once, {"checkpoint": [(start + 50, start + 80)]})
    assert not found(world, "CheckpointStall", once, start, start + 100)


@pytest.mark.parametrize(("evaluation", "train", "fires"), [(0.1, 0.9, True), (0.5, 0.9, False), (0.1, 0.2, False)])
def test_idle_in_evaluation(world: World, start: float, evaluation: float, train: float, fires: bool) -> None:
    run = world.run(start, start + 300, gpu=GPUS[0])
    parts = {"train": [(0, 100), (140, 240)], "evaluate": [(100, 140), (240, 280)]}
    phases(world, run, {name: [(start + at, start + to) for at, to in one] for name, one in parts.items()})
    gpu(world, start, ([train] * 100 + [evaluation] * 40) * 2 + [0.0] * 20)
    every = found(world, "IdleInEvaluation", run, start, start + 300)
    assert bool(every) == fires
    if fires:
        assert every[0].evidence == {
            "evaluation": pytest.approx(0.1, abs=0.03),
            "train": pytest.approx(0.9, abs=0.03),
            "seconds": 80,
        }
    assert not found(world, "IdleInEvaluation", run, start, start + 300, minimum_duration="2 min")


@pytest.mark.parametrize(
    ("watts", "falling", "fires"), [(310.0, False, True), (310.0, True, False), (60.0, False, False)]
)
def test_power_without_progress(world: World, start: float, watts: float, falling: bool, fires: bool) -> None:
    run = world.run(start, start + 3000, gpu=GPUS[0])
    gpu(world, start, [watts] * 3000, metric="power_watts")
    gpu(world, start, [400.0] * 3000, metric="power_limit_watts")
    training = Training(steps=299)
    flat = training.flat(1.0)
    training.losses["train_loss"] = flat * np.linspace(2, 1, 299) if falling else flat
    training.losses["train_loss"][:100] = np.linspace(4, training.losses["train_loss"][100], 100)
    training.write(world, run, start)
    every = found(world, "PowerWithoutProgress", run, start, start + 3000)
    assert bool(every) == fires
    if fires:
        [firing] = every
        assert firing.ended_at is None
        assert firing.evidence["watts"] == pytest.approx(310)
        assert firing.evidence["limit_watts"] == pytest.approx(400)
        assert firing.started_at >= moment(start + 900)
