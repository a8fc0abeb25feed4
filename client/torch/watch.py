"""Watch of a PyTorch model: its steps, its waits for data, and its tensors, by hooks."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from hypergauge.client.guard import Guard
from hypergauge.client.options import WatchOptions
from hypergauge.client.rank import is_first_rank
from hypergauge.client.spans import Spans
from hypergauge.client.tensors import TensorFile
from hypergauge.client.torch.batch import Batch
from hypergauge.client.torch.flops import FlopCounter, is_countable
from hypergauge.client.torch.hooks import after_forward, after_step, before_forward, before_step
from hypergauge.client.torch.loading import LoaderHook
from hypergauge.client.torch.losses import Losses
from hypergauge.client.torch.patches import Patch
from hypergauge.client.torch.reducer import StepReducer
from hypergauge.client.torch.selection import Selection
from hypergauge.client.torch.work import amounts
from hypergauge.client.torch.writer import BatchWriter
from hypergauge.client.training import Training

__all__ = ["TorchWatch"]

_SAVE = Patch(torch, "save")
_is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", lambda: False)
# Step whose operations are counted: the first one may initialize.
_COUNTED_STEP = 1


class TorchWatch:
    """Hooks on one model, from `start` to `close`.

    A step ends with the step of the optimizer. Three hooks are called in every step: before the forward pass, in `backward`, and
    after the optimizer. Those that reduce tensors or count operations are added before a step that needs them and removed after
    it, so that other steps cost a few microseconds.

    Parameters
    ----------
    optimizer
        ``None`` for the first one that steps with parameters of the model.
    loss
        Module whose output is the loss; see `Losses`.
    """

    def __init__(
        self,
        track: Spans,
        training: Training,
        file: TensorFile,
        model: nn.Module,
        optimizer: torch.optim.Optimizer | None,
        loss: nn.Module | None,
        options: WatchOptions,
    ) -> None:
        self._track, self._training, self._model = track, training, model
        self._optimizer, self._options = optimizer, options
        self._guard = Guard("watch", file.problem, self._release, _is_compiling)
        self._selection = Selection(model, options.collections, options.patterns, options.prefix)
        self._number = file.number(model)
        self._reducer = StepReducer(model, self._number, self._selection, options)
        self._losses = Losses(model, loss, options.prefix)
        self._writer = BatchWriter(file)
        self._here = (os.getpid(), threading.get_ident())
        self._others: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()
        self._removals: list[Callable[[], None]] = []
        self._step_removals: list[Callable[[], None]] = []  # of the hooks of the step in progress
        self._step = training.step
        self._epoch = 0
        self._epoch_begin = self._step
        self._data_set: int | None = None
        self._is_special = False  # whether the step in progress is watched or counted
        self._counter: FlopCounter | None = None
        self._flops_per_sample = options.flops or None
        self._samples = 0.0

    def start(self) -> None:
        """Add the hooks. The step in progress is the first one."""
        function = self._guard.function
        self._removals.append(before_forward(self._model, function(self._forward_begins)))
        if "losses" in self._selection:
            self._removals.extend(self._losses.hook(self._guard))
        self._removals.append(before_step(function(self._step_begins)))
        self._removals.append(after_step(function(self._step_ended)))
        loader = LoaderHook(function(self._batch_asked), function(self._data_waited), function(self._data_exhausted))
        self._removals.append(loader.close)
        if self._options.spans:
            _SAVE.add(self._saving)
            self._removals.append(lambda: _SAVE.remove(self._saving))
        self._begin_step()

    def close(self) -> None:
        """Remove the hooks and write what is left. Idempotent."""
        removals, self._removals = self._removals, []
        if not removals:
            return
        for remove in removals:
            remove()
        self._unhook_step()
        self._release()
        self._guard(self._finish)()
        self._writer.close()
        if self._options.spans:
            self._training.close()

    def _release(self) -> None:
        """End what must not stay after an error: the counter of operations, and hooks on activations."""
        self._stop_counting()
        self._reducer.end()

    def _finish(self) -> None:
        if not is_first_rank():
            return
        batch = Batch(max(0, self._step - 1), self._number)
        self._losses.add_to(batch)
        self._writer.send(batch)

    # Data

    def _batch_asked(self, data_set: object, is_first: bool) -> None:
        """Begin an epoch with the first batch of a loader, unless another loader's epoch is in progress."""
        if not self._model.training:
            self._phase("evaluate")
        elif is_first and (self._data_set in (None, id(data_set)) or not self._step):
            self._data_set = id(data_set)
            if self._step > self._epoch_begin:
                self._epoch += 1
                self._epoch_begin = self._step
            if self._options.spans:
                self._training.epoch(self._epoch)
            self._phase("train")

    def _data_waited(self, seconds: float) -> None:
        if self._model.training:
            self._track.work.add(data_wait=seconds)

    def _data_exhausted(self, data_set: object) -> None:
        if id(data_set) == self._data_set and self._model.training:
            self._data_set = None
            if self._options.spans:
                self._training.epoch(None)
        elif not self._model.training:
            self._phase(None)

    # Steps

    def _begin_step(self) -> None:
        is_watched = self._step % self._options.every == 0
        self._is_special = is_watched or self._step == _COUNTED_STEP
        if is_watched and is_first_rank():
            self._step_removals.append(after_forward(self._model, self._guard.function(self._forward_ended)))
            self._reducer.begin(self._step, self._guard)
            self._losses.batch = self._reducer.batch if "labels" in self._selection else None

    def _forward_begins(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        is_training = module.training
        phase = "train" if is_training else "evaluate"
        if phase != self._training.in_phase:
            self._phase(phase)
        if not is_training:
            self._losses.begin_validation()
            return
        if not torch.is_grad_enabled():
            return
        samples, tokens = amounts(args, kwargs, self._options)
        flops = None if self._flops_per_sample is None or samples is None else samples * self._flops_per_sample
        self._track.work.add(samples=samples, tokens=tokens, flops=flops)
        if self._reducer.batch is not None:
            self._reducer.inputs((*args, *kwargs.values()))
        if self._step == _COUNTED_STEP and self._options.flops is None:
            if self._counter is None:
                self._start_counting()
            self._samples += samples or 0.0

    def _forward_ended(self, module: nn.Module, _: tuple[Any, ...], output: Any) -> None:
        if module.training:
            self._reducer.outputs(output)

    def _step_begins(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if self._is_special and self._is_ours(optimizer):
            self._stop_counting()
            self._reducer.gradients(optimizer)

    def _step_ended(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if optimizer is not self._optimizer and not self._is_ours(optimizer):
            return
        if self._options.partial_losses:
            self._losses.end_parts()
        if self._is_special:
            self._end_watched(optimizer)
        if self._options.spans:
            self._training.end_step(self._step)
        self._step += 1
        if self._writer.pending:
            self._writer.poll()
        self._begin_step()

    def _end_watched(self, optimizer: torch.optim.Optimizer) -> None:
        self._unhook_step()
        if (batch := self._reducer.batch) is not None:
            self._reducer.weights(optimizer)
            self._losses.add_to(batch)
            self._losses.batch = None
            self._reducer.end()
            self._writer.send(batch)

    def _is_ours(self, optimizer: torch.optim.Optimizer) -> bool:
        """Return whether the steps of an optimizer are those of the training; the first one with our parameters is it."""
        if self._optimizer is None and optimizer not in self._others:
            ours = {id(parameter) for parameter in self._model.parameters()}
            if any(id(parameter) in ours for group in optimizer.param_groups for parameter in group["params"]):
                self._optimizer = optimizer
            else:
                self._others.add(optimizer)
        return optimizer is self._optimizer

    def _start_counting(self) -> None:
        if is_countable(self._model):
            self._counter = FlopCounter()
            self._counter.__enter__()

    def _stop_counting(self) -> None:
        counter = self._counter
        if counter is not None and self._flops_per_sample is None:
            self._flops_per_sample = counter.flops / self._samples if self._samples else 0.0
            counter.__exit__(None, None, None)
            self._track.work.add(flops=float(counter.flops))

    # Spans and hooks

    def _phase(self, name: str | None) -> None:
        if self._options.spans:
            self._training.phase(name)

    def _saving(self, save: Callable[..., Any]) -> Callable[..., Any]:
        def replacement(*args: Any, **kwargs: Any) -> Any:
            if (os.getpid(), threading.get_ident()) != self._here:  # the training does not wait for it
                return save(*args, **kwargs)
            with self._training.checkpoint():
                return save(*args, **kwargs)

        return replacement

    def _unhook_step(self) -> None:
        removals, self._step_removals = self._step_removals, []
        for remove in removals:
            remove()
