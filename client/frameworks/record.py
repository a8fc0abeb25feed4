"""Record of one training, from what a framework reports."""

from __future__ import annotations

import functools
import importlib
import math
import sys
import weakref
from collections.abc import Callable
from typing import Any

from hypergauge.client.guard import Guard
from hypergauge.client.rank import is_first_rank
from hypergauge.client.reductions import Reducer
from hypergauge.client.spans import Spans
from hypergauge.client.tensors import TensorFile
from hypergauge.client.training import Training

__all__ = ["Record", "framework"]

# Arrays by collection and name.
Tensors = dict[str, dict[str, Any]]
_NUMPY = Reducer()


def framework(name: str) -> Any:
    """Return a module of a framework, which has the base class of a callback.

    Raises
    ------
    ImportError
        This interpreter has no such module.
    """
    return sys.modules.get(name) or importlib.import_module(name)


class Record:
    """Spans, losses and reductions of one training.

    Steps are numbered through all trainings of the process, so that each row of the file has a step of its own.

    Parameters
    ----------
    name
        Name of the callback, for the note about an error in it.
    every
        Steps from one row of reductions to the next.

    Raises
    ------
    ValueError
        `every` is not a number of steps.
    """

    _current: Record | None = None

    def __init__(self, track: Spans, training: Training, file: TensorFile, name: str, every: int = 100) -> None:
        if type(every) is not int or every < 1:
            raise ValueError(f"every is {every!r}, but must be a number of steps, at least 1")
        self.track, self.training = track, training
        self.guard = Guard(name, file.problem)
        self._file, self._every = file, every
        self._records_tensors = is_first_rank()
        self._next = training.step  # step of the next row
        self._written = -1  # step of the last row with tensors
        self._losses: dict[str, list[float]] = {}
        self._model: int | None = None

    def begin(self, model: object = None) -> None:
        """Begin the training of a model. Its losses are a series of their own, which a known model continues."""
        self.write_now()
        self._model = self._file.number(model)

    def phase(self, name: str | None) -> None:
        """Begin a phase, or end the current one."""
        Record._current = self
        self.training.phase(name)

    def epoch(self, number: int) -> None:
        """Begin an epoch and its phase ``train``."""
        self.training.epoch(number)
        self.phase("train")

    def loss(self, value: Any, name: str = "loss") -> None:
        """Add the loss of the step in progress; as ``val_loss`` that of the validation which belongs to the step."""
        self._losses.setdefault(name, []).append(float(value))

    def validation(self, loss: Any) -> None:
        """Write the loss of a validation, at the step that ended last."""
        self._write(max(0, self.training.step - 1), "losses", {"val_loss": [float(loss)]})

    def end_step(self, tensors: Callable[[], Tensors] | None = None, reducer: Reducer | None = None) -> None:
        """End a step, and write reductions if `every` steps have passed.

        Parameters
        ----------
        tensors
            Returns arrays by collection and name.
        reducer
            Reducer of the arrays; by default one of what NumPy understands.
        """
        self.training.end_step()
        if self.training.step > self._next:
            self._next = self.training.step - 1 + self._every
            self.write_now(tensors, reducer)

    def write_now(self, tensors: Callable[[], Tensors] | None = None, reducer: Reducer | None = None) -> None:
        """Write losses and reductions after the step that ended last."""
        step = max(0, self.training.step - 1)
        losses, self._losses = self._losses, {}
        for name, values in losses.items():
            self._write(step, "losses", {name: values})
        if tensors is not None and self._records_tensors and step != self._written:
            self._written = step
            for collection, arrays in tensors().items():
                self._write(step, collection, arrays, reducer)

    def close(self) -> None:
        """Write what remains, and end what is open. Idempotent."""
        self.write_now()
        if Record._current is self:  # not what another training has begun since
            Record._current = None
            self.training.close()

    def close_with(self, callback: object) -> None:
        """Close when the framework drops the callback, or the process ends: a stopped training is not always reported."""
        weakref.finalize(callback, self.guard(self.close))

    def as_checkpoint(self, save: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that saves within a phase ``checkpoint``."""

        @functools.wraps(save)
        def saved(*args: Any, **kwargs: Any) -> Any:
            phase = self.training.checkpoint()
            self.guard(phase.__enter__)()
            try:
                return save(*args, **kwargs)
            finally:
                self.guard(phase.__exit__)(None, None, None)

        return saved

    def _write(self, step: int, collection: str, arrays: dict[str, Any], reducer: Reducer | None = None) -> None:
        """Write the reductions of arrays by name."""
        import numpy

        if not self._records_tensors:
            return
        found = {name: array if reducer else numpy.asarray(array, dtype=float) for name, array in arrays.items()}
        sizes = {name: math.prod(int(length) for length in array.shape) for name, array in found.items()}
        found = {name: array for name, array in found.items() if sizes[name]}
        if found:
            columns = (reducer or _NUMPY)(list(found.values()))
            if self._model is None:
                self._model = self._file.number()
            self._file.write(step, collection, list(found), [sizes[name] for name in found], columns, model=self._model)
