"""Callback for Keras 3, of any backend."""

from __future__ import annotations

import sys
import time
from typing import Any

from hypergauge.client.frameworks.callback import callback, record_of
from hypergauge.client.frameworks.record import Record, framework
from hypergauge.client.reductions import Reducer

__all__ = ["keras_callback"]

Logs = Any


def keras_callback(track: Any, every: int = 100) -> Any:
    """Return a callback for `fit` and `evaluate`."""
    keras = framework("keras")
    record = record_of(track, "keras", every)
    hooks = _Hooks(keras, record) if record else None
    return callback(keras.callbacks.Callback, hooks, record, "keras", {"every": every})


class _Hooks:
    """Hooks of one callback. Keras calls them in the order of the training, in one thread."""

    def __init__(self, keras: Any, record: Record) -> None:
        self._keras, self._record = keras, record
        jit = sys.modules["jax"].jit if keras.backend.backend() == "jax" else None
        self._reducer = Reducer(keras.ops, jit)
        self._model: Any = None
        # Sum of losses and number of samples in the epoch so far.
        self._seen = (0.0, 0.0)
        self._waits_since: float | None = None

    def set_model(self, model: Any) -> None:
        self._model = model
        self._record.begin(model)

    def on_train_begin(self, logs: Logs = None) -> None:
        for name in ("save", "save_weights"):
            # Not by the model's own __setattr__, which tracks attributes as parts of the model.
            object.__setattr__(self._model, name, self._record.as_checkpoint(getattr(self._model, name)))

    def on_train_end(self, logs: Logs = None) -> None:
        for name in ("save", "save_weights"):
            vars(self._model).pop(name, None)
        self._record.close()

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        self._record.epoch(epoch)
        self._seen = (0.0, 0.0)
        self._wait()

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        self._record.phase(None)

    def on_train_batch_begin(self, batch: int, logs: Logs = None) -> None:
        if self._waits_since is not None:
            self._record.track.work.add(data_wait=time.perf_counter() - self._waits_since)
            self._waits_since = None

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        total, count = self._sums()
        samples = count - self._seen[1]
        if samples > 0:
            self._record.track.work.add(samples=samples)
            # Keras reports the mean of the epoch so far.
            self._record.loss((total - self._seen[0]) / samples)
        elif logs and "loss" in logs:
            self._record.loss(logs["loss"])
        self._seen = (total, count)
        self._record.end_step(self._tensors, self._reducer)
        self._wait()

    def on_test_begin(self, logs: Logs = None) -> None:
        self._record.phase("evaluate")

    def on_test_end(self, logs: Logs = None) -> None:
        self._record.phase(None)
        if logs and "loss" in logs:
            self._record.validation(logs["loss"])

    def on_predict_begin(self, logs: Logs = None) -> None:
        self._record.phase("predict")

    def on_predict_end(self, logs: Logs = None) -> None:
        self._record.phase(None)

    def _wait(self) -> None:
        """Begin to wait for data. The other backends take the batch within the step."""
        if self._keras.backend.backend() == "torch":
            self._waits_since = time.perf_counter()

    def _sums(self) -> tuple[float, float]:
        """Return the sum of the losses and the number of samples in the epoch so far; zeros if the model has none."""
        tracker = getattr(self._model, "_loss_tracker", None)
        if tracker is None:
            return 0.0, 0.0
        variables = tracker.variables
        state = getattr(self._model, "_jax_state", None)
        if state and not getattr(self._model, "_jax_state_synced", True):
            variables = state["metrics_variables"]  # the loss is the first metric
        total, count = (float(variable) for variable in variables[:2])
        return total, count

    def _tensors(self) -> dict[str, dict[str, Any]]:
        if hasattr(self._model, "jax_state_sync"):
            self._model.jax_state_sync()
        found: dict[str, dict[str, Any]] = {"weights": {}, "biases": {}, "gradients": {}}
        for variable in self._model.trainable_variables:
            value, path = variable.value, variable.path
            found["biases" if path.endswith("bias") else "weights"][path] = self._floats(value)
            gradient = getattr(value, "grad", None) if self._keras.backend.backend() == "torch" else None
            if gradient is not None:
                found["gradients"][path] = self._floats(gradient)
        return found

    def _floats(self, value: Any) -> Any:
        value = value.detach() if hasattr(value, "detach") else value
        return self._keras.ops.cast(value, "float32")
