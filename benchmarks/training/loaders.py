"""Training with many processes: data loaders augment images, and a trainer takes their batches in turn."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from benchmarks.training.members import Members

__all__ = ["members"]

LOADERS_AT_LEAST = 32
LOADERS_PER_CORE = 4
BATCH, SIDE, CHANNELS = 16, 32, 3
FEATURES = SIDE * SIDE * CHANNELS
_PADDING = 4


def members(cores: int, _: Path) -> Members:
    """Return a trainer and its loaders."""
    pipes = [Pipe(duplex=False) for _ in range(max(LOADERS_AT_LEAST, LOADERS_PER_CORE * cores))]
    trainer: Members = {"trainer-0": functools.partial(_train, [receiver for receiver, _ in pipes])}
    loaders: Members = {
        f"loader-{number}": functools.partial(_load, number, pipe) for number, (_, pipe) in enumerate(pipes)
    }
    return {**trainer, **loaders}


def _train(receivers: Sequence[Connection]) -> Iterator[None]:
    """Take one batch from each loader in turn, as PyTorch's ``DataLoader`` does."""
    batch = np.empty((BATCH, FEATURES), dtype=np.float32)
    weights = np.zeros((FEATURES, 10), dtype=np.float32)
    while True:
        for receiver in receivers:
            receiver.recv_bytes_into(batch.data.cast("B"))
            weights -= 1e-6 * (batch.T @ (batch @ weights - 1))
            yield


def _load(number: int, pipe: Connection) -> Iterator[None]:
    """Crop, mirror and normalize images, and wait while the pipe is full."""
    random = np.random.default_rng(number)
    padded = SIDE + 2 * _PADDING
    images = random.integers(0, 256, (1024, padded, padded, CHANNELS), dtype=np.uint8)
    while True:
        batch = np.empty((BATCH, SIDE, SIDE, CHANNELS), dtype=np.float32)
        for place, image in enumerate(random.integers(len(images), size=BATCH)):
            top, left = random.integers(2 * _PADDING, size=2)
            crop = images[image, top : top + SIDE, left : left + SIDE]
            batch[place] = crop[:, ::-1] if random.random() < 0.5 else crop
        batch = (batch - batch.mean()) / batch.std()
        pipe.send_bytes(batch.data.cast("B"))
        yield
