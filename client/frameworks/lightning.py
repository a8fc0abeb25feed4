"""Callback for Lightning."""

from __future__ import annotations

import sys
from typing import Any

from hypergauge.client.frameworks.callback import callback, record_of
from hypergauge.client.frameworks.record import Record, framework
from hypergauge.client.frameworks.torch import TorchTensors

__all__ = ["lightning_callback"]


def lightning_callback(track: Any, **options: Any) -> Any:
    """Return a callback for a `Trainer`, of ``lightning.pytorch`` or ``pytorch_lightning``."""
    # The script may have the package under its old name.
    name = "pytorch_lightning" if "lightning.pytorch" not in sys.modules and "pytorch_lightning" in sys.modules else ""
    base = framework(name or "lightning.pytorch").Callback
    record = record_of(track, "lightning", options.get("every", 100))
    return callback(base, _Hooks(track, record, options) if record else None, record, "lightning", options)


class _Hooks:
    """Hooks of one callback. A step is an update of the model, of several batches where gradients accumulate."""

    def __init__(self, track: Any, record: Record, options: dict[str, Any]) -> None:
        self._record, self._tensors = record, TorchTensors(track, record, options)
        self._updates = 0

    def on_fit_start(self, trainer: Any, module: Any) -> None:
        self._updates = trainer.global_step
        self._tensors.start(module, next(iter(trainer.optimizers), None), trainer.accumulate_grad_batches != 1)
        trainer.save_checkpoint = self._record.as_checkpoint(trainer.save_checkpoint)

    def teardown(self, trainer: Any, module: Any, stage: str) -> None:
        vars(trainer).pop("save_checkpoint", None)
        self._tensors.close()
        self._record.close()

    def on_train_epoch_start(self, trainer: Any, module: Any) -> None:
        self._record.epoch(trainer.current_epoch)

    def on_train_epoch_end(self, trainer: Any, module: Any) -> None:
        self._record.phase(None)

    def on_train_batch_start(self, trainer: Any, module: Any, batch: Any, batch_idx: int) -> None:
        self._record.phase("train")  # again, after a validation
        self._tensors.begin_batch()

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        self._tensors.end_batch(batch)
        if trainer.global_step != self._updates:
            self._updates = trainer.global_step
            self._record.training.end_step()

    def on_validation_start(self, trainer: Any, module: Any) -> None:
        self._record.phase("evaluate")

    def on_validation_end(self, trainer: Any, module: Any) -> None:
        self._record.phase(None)
        losses = [value for name, value in trainer.callback_metrics.items() if _is_validation_loss(name)]
        if losses and not trainer.sanity_checking:
            self._record.validation(losses[0])

    on_test_start = on_validation_start

    def on_test_end(self, trainer: Any, module: Any) -> None:
        self._record.phase(None)

    def on_predict_start(self, trainer: Any, module: Any) -> None:
        self._record.phase("predict")

    on_predict_end = on_test_end


def _is_validation_loss(name: str) -> bool:
    """Return whether a script has logged a validation's loss by this name: ``val_loss``, ``valid/loss``."""
    return name.lower().startswith("val") and "loss" in name.lower() and not name.endswith("_step")
