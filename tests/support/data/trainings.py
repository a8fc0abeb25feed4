"""Tensors of a training in a database: a small transformer that learns, with values of plausible size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from hypergauge.sql.server.database import Connection

__all__ = ["LAYERS", "health", "tensor_set", "tensor_step"]

LAYERS = ("embed", *(f"encoder.{n}.{part}" for n in range(4) for part in ("attention", "mlp.up", "mlp.down")), "head")


def tensor_set(
    connection: Connection, run_id: str, collection: str, names: Sequence[str], *, sizes: Sequence[int] | None = None,
    key: str | None = None,
) -> str:  # fmt: skip
    """Insert the tensors of a collection, and return the id of the set."""
    key = key or f"{collection}-1"
    connection.execute(
        "insert into bench_internal.tensor_sets (run_id, tensor_set, collection, names, sizes) values (%s, %s, %s, %s, %s)",
        (run_id, key, collection, list(names), list(sizes or [1024] * len(names))),
    )
    return key


def tensor_step(
    connection: Connection, run_id: str, key: str, step: int, time: float, *, pid: int | None = 1,
    norm: float | None = None, **reductions: Sequence[float | None],
) -> None:  # fmt: skip
    """Insert the reductions of a set at a step; `time` in Unix seconds."""
    values: Mapping[str, Any] = {
        "run_id": run_id, "tensor_set": key, "step": step, "time": datetime.fromtimestamp(time, UTC), "pid": pid, "norm": norm,
        **{name: [None if x is None else float(x) for x in some] for name, some in reductions.items()},
    }  # fmt: skip
    columns = ", ".join(f'"{name}"' for name in values)
    marks = ", ".join("%s::real[]" if name in reductions else "%s" for name in values)
    connection.execute(
        f"insert into bench_internal.tensor_steps ({columns}) values ({marks})".encode(),
        list(values.values()),
    )


def health(
    connection: Connection, run_id: str, start: float, seconds: float, *, steps: int = 200, seed: int = 1, pid: int = 1,
    layers: Sequence[str] = LAYERS,
) -> None:  # fmt: skip
    """Store a training that learns, watched `steps` times: its last gradients vanish towards the input."""
    noise = np.random.default_rng(seed)
    weights = [f"{layer}.weight" for layer in layers]
    relus = [layer.replace("mlp.up", "relu") for layer in layers if "mlp.up" in layer]
    depth = np.linspace(1.6, 0.0, len(weights))
    keys = {
        collection: tensor_set(connection, run_id, collection, names, key=f"{collection}-{pid}")
        for collection, names in (("weights", weights), ("gradients", weights), ("losses", ["loss"]), ("relu", relus))
    }
    for at in range(steps):
        done = at / steps
        time = start + (at + 1) * seconds / (steps + 1)
        loss = 0.35 + 2.2 * np.exp(-5 * done) + noise.normal(0, 0.03)
        gradients = np.exp(noise.normal(0, 0.2, len(weights)) - depth * (1 + 2 * done)) * (0.3 + loss / 2)
        norms = 18 + 6 * done + noise.normal(0, 0.02, len(weights))
        dead = np.clip(0.48 + 0.3 * done * np.linspace(0.2, 1, len(relus)) + noise.normal(0, 0.01, len(relus)), 0, 1)
        none = np.zeros(len(weights))
        step = at * 10
        tensor_step(
            connection, run_id, keys["weights"], step, time, pid=pid, norm=float(np.sqrt((norms**2).sum())),
            l2=norms.tolist(), std=(norms / 600).tolist(), min=(-norms / 150).tolist(), max=(norms / 150).tolist(),
            mean=(none + 1e-4).tolist(), nonfinite=none.tolist(), update_ratio=(1e-3 * gradients / gradients.mean()).tolist(),
        )  # fmt: skip
        tensor_step(
            connection, run_id, keys["gradients"], step, time, pid=pid, norm=float(np.sqrt((gradients**2).sum())),
            l2=gradients.tolist(), std=(gradients / 32).tolist(), max=(gradients / 8).tolist(), zeros=(none + 0.01).tolist(),
            nonfinite=none.tolist(),
        )  # fmt: skip
        tensor_step(
            connection, run_id, keys["losses"], step, time, pid=pid, mean=[loss], min=[loss - 0.1], max=[loss + 0.15],
            nonfinite=[0.0],
        )  # fmt: skip
        tensor_step(
            connection, run_id, keys["relu"], step, time, pid=pid, zeros=dead.tolist(), mean=(0.3 - dead / 4).tolist()
        )
