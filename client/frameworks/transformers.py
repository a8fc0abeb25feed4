"""Callback for the Trainer of Transformers."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from hypergauge.client.frameworks.callback import callback, record_of
from hypergauge.client.frameworks.record import Record, framework
from hypergauge.client.frameworks.torch import TorchTensors

__all__ = ["transformers_callback"]


def transformers_callback(track: Any, **options: Any) -> Any:
    """Return a callback for a `Trainer`."""
    base = framework("transformers").TrainerCallback
    record = record_of(track, "transformers", options.get("every", 100))
    return callback(base, _Hooks(track, record, options) if record else None, record, "transformers", options)


class _Hooks:
    """Hooks of one callback.

    The Trainer reports the end of an evaluation or a checkpoint, and announces their beginning by a flag. After the event
    that sets the flag it logs, evaluates and saves, in this order.
    """

    def __init__(self, track: Any, record: Record, options: dict[str, Any]) -> None:
        self._record, self._tensors = record, TorchTensors(track, record, options)
        self._checkpoint: AbstractContextManager[None] | None = None
        self._in_epoch = False

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **others: Any) -> None:
        # The optimizer may be a wrapper without hooks; the watch finds the one that steps.
        self._tensors.start(model, None, args.gradient_accumulation_steps != 1)

    def on_train_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        self._tensors.close()
        self._record.close()

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        self._in_epoch = True
        self._record.epoch(int(state.epoch or 0))

    def on_epoch_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        self._in_epoch = False
        self._record.phase(None)
        self._follow(control)

    def on_step_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        self._record.phase("train")

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        self._record.training.end_step()
        self._follow(control)

    def on_log(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        self._follow(control)

    def on_prediction_step(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        self._record.phase("evaluate")

    def on_evaluate(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        # The watch has the losses of its batches.
        self._record.phase("train" if self._in_epoch else None)
        self._follow(control)

    def on_predict(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        self._record.phase(None)

    def on_save(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        checkpoint, self._checkpoint = self._checkpoint, None
        if checkpoint is not None:
            checkpoint.__exit__(None, None, None)

    def _follow(self, control: Any) -> None:
        """Begin what the Trainer does next."""
        if control.should_log:
            return
        if control.should_evaluate:
            self._record.phase("evaluate")
        elif control.should_save and self._checkpoint is None:
            self._checkpoint = self._record.training.checkpoint()
            self._checkpoint.__enter__()
