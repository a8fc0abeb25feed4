"""File of a run's reductions of tensors."""

from __future__ import annotations

import base64
import json
import os
import threading
import time
import weakref
from collections.abc import Mapping, Sequence

from hypergauge.client.append_only import AppendOnlyFile

__all__ = ["REDUCTIONS", "TensorFile"]

# Reductions that a step may have, each a value per tensor.
REDUCTIONS = (
    "min", "max", "mean", "std", "l1", "l2", "zeros", "nonfinite", "saturated", "update_ratio",
    "p05", "p25", "p50", "p75", "p95",
)  # fmt: skip


class TensorFile:
    """Writer of reductions to the file in ``BENCH_TENSORS``. One write appends a step, so that processes can share it.

    A line names the tensors of a set, or has the reductions of a set at a step: arrays of float32, little-endian, in
    base64. NaN stands for no value. The name of a set has the number of its model, so that losses of two folds are two series.
    """

    def __init__(self, path: str) -> None:
        self._file = AppendOnlyFile(path)
        # Processes in two containers may have the same process id.
        self._id = f"{os.getpid():x}-{os.urandom(3).hex()}"
        self._sets: dict[tuple[int, str, tuple[str, ...]], tuple[str, list[int]]] = {}
        self._models: dict[int, tuple[weakref.ref[object], int]] = {}
        self._count = 0  # models so far
        self._gaps: set[str] = set()
        # The thread of a watch writes beside the training's own.
        self._lock = threading.Lock()

    def number(self, model: object = None) -> int:
        """Return the number of a model in this process, from 1; a new one each time without a model."""
        with self._lock:
            reference, number = self._models.get(id(model), (None, 0))
            if model is None or reference is None or reference() is not model:
                self._count = number = self._count + 1
                if model is not None:
                    self._models[id(model)] = weakref.ref(model), number
            return number

    def write(
        self,
        step: int,
        collection: str,
        names: Sequence[str],
        sizes: Sequence[int],
        columns: Mapping[str, bytes],
        *,
        model: int = 1,
        at: float | None = None,
    ) -> None:
        """Append the reductions of a collection's tensors at a step.

        Parameters
        ----------
        names, sizes
            Names and numbers of elements of the tensors.
        columns
            Values of each reduction, a float32 per tensor.
        model
            Number of the tensors' model.
        at
            Unix seconds; now by default.
        """
        key = (model, collection, tuple(names))
        with self._lock:
            self._append(self._lines(key, step, list(sizes), columns, at or time.time()))

    def problem(self, text: str) -> None:
        """Append why nothing more is recorded; it becomes a note on the run."""
        with self._lock:
            self._append([json.dumps({"problem": text})])

    def gap(self, text: str) -> None:
        """Append what is not recorded, and why, once; it becomes a note on the run."""
        with self._lock:
            if text not in self._gaps:
                self._gaps.add(text)
                self._append([json.dumps({"gap": text})])

    def _lines(
        self,
        key: tuple[int, str, tuple[str, ...]],
        step: int,
        sizes: list[int],
        columns: Mapping[str, bytes],
        at: float,
    ) -> list[str]:
        """Return the line of a step, after that of its set if the set is new."""
        lines = []
        model, collection, names = key
        if key not in self._sets:
            self._sets[key] = (f"{self._id}-{model}-{len(self._sets)}", sizes)
            identity = {"set": self._sets[key][0], "collection": collection}
            lines.append(json.dumps({**identity, "names": list(names), "sizes": sizes}))
        name, usual = self._sets[key]
        content: dict[str, object] = {"set": name, "step": step, "time": at, "pid": os.getpid()}
        if sizes != usual:
            content["sizes"] = sizes
        content.update((reduction, base64.b64encode(values).decode()) for reduction, values in columns.items())
        lines.append(json.dumps(content))
        return lines

    def _append(self, lines: Sequence[str]) -> None:
        """Append lines by one write."""
        self._file.append("".join(f"{line}\n" for line in lines).encode())
