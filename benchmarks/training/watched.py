"""PyTorch training that switches its watch on and off: ``python -m benchmarks.training.watched MODEL SECONDS EVERY SEED``.

It prints a JSON object: for each pair of periods of `EVERY` steps, with and without a watch, the seconds, the CPU seconds, and the
seconds of typical steps: the first one, which is watched, and the median of the others in place of each. It runs in a run's
environment, where neither NumPy nor our other packages may exist.
"""

from __future__ import annotations

import itertools
import json
import random
import statistics
import sys
import time
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from hypergauge import track

__all__ = ["MODELS"]

_PAIRS_AT_LEAST = 5
Batch = tuple[torch.Tensor, torch.Tensor]


def _dense() -> tuple[nn.Module, Callable[[], Batch]]:
    model = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10))
    return model, lambda: (torch.randn(128, 784), torch.randint(10, (128,)))


def _convolutional() -> tuple[nn.Module, Callable[[], Batch]]:
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.AdaptiveAvgPool2d(4),
        nn.Flatten(), nn.Linear(1024, 10),
    )  # fmt: skip
    return model, lambda: (torch.randn(32, 3, 32, 32), torch.randint(10, (32,)))


class _Transformer(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(1000, 128)
        layer = nn.TransformerEncoderLayer(128, 4, 256, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(128, 1000)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.head(self.encoder(self.embedding(ids)))
        return found.transpose(1, 2)


def _transformer() -> tuple[nn.Module, Callable[[], Batch]]:
    def batch() -> Batch:
        ids = torch.randint(1000, (16, 64))
        return ids, ids.roll(1, 1)

    return _Transformer(), batch


MODELS = {"dense": _dense, "convolutional": _convolutional, "transformer": _transformer}


def main(name: str, seconds: float, every: int, seed: int) -> None:
    """Train for that many seconds, and print the times of the periods."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    model, batch = MODELS[name]()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)

    def period(watched: bool) -> tuple[float, ...]:
        """Train for a period; return its seconds, CPU seconds, and seconds of typical steps."""
        cpu, ends = time.process_time(), [time.perf_counter()]
        for _ in range(every):
            inputs, targets = batch()
            loss = functional.cross_entropy(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            ends.append(time.perf_counter())
        first, *others = [end - begin for begin, end in itertools.pairwise(ends)]
        median = statistics.median(others)
        return ends[-1] - ends[0], time.process_time() - cpu, (first if watched else median) + (every - 1) * median

    order = random.Random(seed)
    track.watch(model, every=every).close()  # imports are needed once
    period(watched=False)
    found: list[dict[str, tuple[float, ...]]] = []
    deadline = time.monotonic() + seconds
    while len(found) < _PAIRS_AT_LEAST or time.monotonic() < deadline:
        pair: dict[bool, tuple[float, ...]] = {}
        for on in order.sample((True, False), 2):
            watch = track.watch(model, every=every) if on else None
            pair[on] = period(watched=on)
            if watch is not None:
                watch.close()
        found.append({"on": pair[True], "off": pair[False]})
    print(json.dumps({"parameters": sum(one.numel() for one in model.parameters()), "pairs": found}))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
