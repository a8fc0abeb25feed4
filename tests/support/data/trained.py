"""Trainings for tests of rules on health: reductions of tensors, losses, steps and phases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.support.world import World

Numbers = npt.NDArray[np.float64]

NAMES = ("embed.weight", "conv.weight", "conv.bias", "norm.weight", "fc.weight", "fc.bias")
SIZES = (64_000, 4096, 64, 64, 8192, 10)
REDUCTIONS = ("min", "max", "mean", "std", "l1", "l2", "zeros", "nonfinite", "saturated", "update_ratio")


@dataclass
class Collection:
    """Reductions of a collection's tensors, each of shape (steps, tensors)."""

    names: Sequence[str]
    sizes: Sequence[int]
    columns: dict[str, Numbers]

    def __getitem__(self, reduction: str) -> Numbers:
        return self.columns[reduction]

    def scale(self, by: float | Numbers, tensors: slice | int = slice(None), steps: slice = slice(None)) -> None:
        """Multiply all elements of tensors."""
        for name in ("min", "max", "mean", "std", "l1", "l2"):
            self.columns[name][steps, tensors] *= by

    def zero(self, tensors: slice | int, steps: slice = slice(None)) -> None:
        """Make all elements of tensors zero."""
        self.scale(0, tensors, steps)
        self.columns["zeros"][steps, tensors] = 1

    def freeze(self, tensors: slice | int, steps: slice = slice(None)) -> None:
        """Keep tensors as they are at the first of the steps."""
        for name in ("min", "max", "mean", "std", "l1", "l2"):
            column = self.columns[name]
            column[steps, tensors] = column[steps.start or 0, tensors]
        self.columns["update_ratio"][steps, tensors] = 0


@dataclass
class Training:
    """Sound training to begin with, watched every `every` seconds.

    Attributes
    ----------
    losses
        Values of logged losses by key, one for each watched step. NaN is logged as such.
    stride
        Steps from one watched step to the next.
    """

    steps: int = 100
    every: float = 10.0
    seed: int = 1
    tensors: dict[str, Collection] = field(default_factory=dict)
    losses: dict[str, Numbers] = field(default_factory=dict)
    stride: int = 1

    def __post_init__(self) -> None:
        random = np.random.default_rng(self.seed)
        shape = (self.steps, len(NAMES))
        walk = 1 + 0.01 * np.cumsum(random.normal(size=shape), axis=0) / np.sqrt(self.steps)
        weights = tensors(NAMES, SIZES, 0.05 * np.abs(walk))
        weights.columns["update_ratio"] = 1e-3 * np.exp(random.normal(size=shape))
        weights.columns["std"][:, 3] = 0  # scales of a normalization
        weights.zero(2, slice(0, 1))
        gradients = tensors(NAMES, SIZES, 1e-4 * np.exp(0.3 * random.normal(size=shape)))
        gradients.columns["zeros"][:, 0] = 0.99  # of an embedding
        for name in ("l1", "mean"):
            gradients.columns[name][:, 0] *= 0.01
        gradients.scale(1e-6, 2)  # of a bias before a normalization
        active = tensors(("conv", "fc"), (8192, 4096), np.exp(0.1 * random.normal(size=(self.steps, 2))))
        active.columns["zeros"][:] = 0.5 + 0.2 * random.random((self.steps, 2))
        self.tensors = {"weights": weights, "gradients": gradients, "relu": active}
        self.losses = {"train_loss": self.decreasing(2.3, 0.3)}

    def decreasing(self, first: float, last: float, noise: float = 0.05, pace: float = 2.5) -> Numbers:
        """Return a loss that decreases, ever more slowly, with noise."""
        random = np.random.default_rng(self.seed + 1)
        curve = last + (first - last) * np.exp(-np.arange(self.steps) / (self.steps / pace))
        return np.asarray(curve * np.exp(noise * random.normal(size=self.steps)))

    def flat(self, value: float, noise: float = 0.01) -> Numbers:
        random = np.random.default_rng(self.seed + 2)
        return np.asarray(value * (1 + noise * random.normal(size=self.steps)))

    def rising(self, first: float, low: float, last: float, noise: float = 0.01) -> Numbers:
        """Return a loss that falls in the first third and then rises."""
        third = self.steps // 3
        curve = np.concatenate([np.linspace(first, low, third), np.linspace(low, last, self.steps - third)])
        return np.asarray(curve * (1 + noise * np.random.default_rng(self.seed + 3).normal(size=self.steps)))

    def write(self, world: World, run: str, start: float, first: int = 0) -> None:
        """Store the training of a run."""
        times = [start + self.every * (1 + at) for at in range(self.steps)]
        for number, (collection, one) in enumerate(self.tensors.items()):
            write_tensors(world, run, f"7f-{number}", collection, one, times, first, self.stride)
        rows = [
            (
                run,
                key,
                first + self.stride * at,
                times[at],
                self.every * (1 + at),
                None if np.isnan(value) else float(value),
            )
            for key, values in self.losses.items()
            for at, value in enumerate(values)
        ]
        with (
            world.connection.cursor() as cursor,
            cursor.copy("copy software_metrics (run_id, key, step, time, elapsed, value) from stdin") as copy,
        ):
            for run_id, key, step, at, elapsed, value in rows:
                copy.write_row((run_id, key, step, _text(at), elapsed, value))


def tensors(names: Sequence[str], sizes: Sequence[int], scale: Numbers) -> Collection:
    """Return reductions of normally distributed tensors; `scale` has the shape (steps, tensors)."""
    size = np.array(sizes, float)
    zero = np.zeros_like(scale)
    columns = {
        "min": -4 * scale, "max": 4 * scale, "mean": 0.01 * scale, "std": scale.copy(), "l1": 0.8 * size * scale,
        "l2": np.sqrt(size) * scale, "zeros": zero.copy(), "nonfinite": zero.copy(), "saturated": zero.copy(),
    }  # fmt: skip
    return Collection(names, sizes, columns)


def classes(training: Training, labels: list[float], accuracy: list[float]) -> None:
    """Add the shares of labels per class, and of correct predictions among them."""
    names = [str(at) for at in range(len(labels))]
    for collection, means in (("labels", labels), ("predictions", accuracy)):
        one = tensors(names, [64] * len(names), np.ones((training.steps, len(names))))
        one["mean"][:] = means
        training.tensors[collection] = one


def write_tensors(
    world: World, run: str, name: str, collection: str, one: Collection, times: Sequence[float], first: int = 0,
    stride: int = 1,
) -> None:  # fmt: skip
    """Store the reductions of a set at every `stride`-th step from `first` on."""
    world.connection.execute(
        "insert into tensor_sets (run_id, tensor_set, collection, names, sizes) values (%s, %s, %s, %s, %s)",
        (run, name, collection, list(one.names), list(one.sizes)),
    )
    columns = [reduction for reduction in REDUCTIONS if reduction in one.columns]
    statement = f"copy tensor_steps (run_id, tensor_set, step, time, pid, {', '.join(columns)}) from stdin"
    with world.connection.cursor() as cursor, cursor.copy(statement.encode()) as copy:
        for at, time in enumerate(times):
            arrays = [_array(one.columns[reduction][at]) for reduction in columns]
            copy.write_row((run, name, first + stride * at, _text(time), 127, *arrays))


def phases(world: World, run: str, kinds: Mapping[str, Sequence[tuple[float, float | None]]]) -> None:
    """Store phases by name."""
    rows: list[tuple[Any, ...]] = [
        (run, f"{name} {at}", name, began, ended)
        for name, intervals in kinds.items()
        for at, (began, ended) in enumerate(intervals)
    ]
    with world.connection.cursor() as cursor:
        cursor.executemany(
            "insert into spans (run_id, span_id, name, kind, started_at, ended_at, pid)"
            " values (%s, %s, %s, 'phase', to_timestamp(%s), to_timestamp(%s), 127)",
            rows,
        )


def steps(world: World, run: str, start: float, seconds: Sequence[float], waits: Sequence[float | None]) -> None:
    """Store steps one after the other with their waits for data."""
    ends = start + np.cumsum(seconds)
    with (
        world.connection.cursor() as cursor,
        cursor.copy(
            "copy spans (run_id, span_id, name, kind, step, started_at, ended_at, pid, data_wait) from stdin"
        ) as copy,
    ):
        for at, (end, length, wait) in enumerate(zip(ends, seconds, waits, strict=True)):
            copy.write_row((run, f"s{at}", "step", "step", at, _text(end - length), _text(float(end)), 127, wait))


def _array(values: Numbers) -> str:
    """Return an array of real as text; NaN is null."""
    return "{" + ",".join("null" if np.isnan(value) else repr(float(np.float32(value))) for value in values) + "}"


def _text(time: float) -> str:
    return str(np.datetime64(round(time * 1e6), "us")) + "+00"
