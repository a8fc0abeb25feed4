"""Watch of a PyTorch model: its steps, its waits for data, and its tensors, by hooks."""

from __future__ import annotations

import functools
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
from hypergauge.client.torch.amounts import StepAmounts
from hypergauge.client.torch.batch import Batch
from hypergauge.client.torch.calls import compiled_form, followed, has_optimizer
from hypergauge.client.torch.compiler import uncompiled
from hypergauge.client.torch.gaps import Gaps
from hypergauge.client.torch.hooks import after_forward, after_step, before_forward, before_step
from hypergauge.client.torch.loop import loop_of
from hypergauge.client.torch.losses import Losses
from hypergauge.client.torch.patches import Patch
from hypergauge.client.torch.reducer import StepReducer
from hypergauge.client.torch.selection import Selection
from hypergauge.client.torch.writer import BatchWriter
from hypergauge.client.training import Training

__all__ = ["TorchWatch"]

# What `torch.save` calls: the function itself stays, as it may be pickled by its name.
_SAVES = tuple(
    Patch(torch.serialization, name) for name in ("_save", "_legacy_save") if hasattr(torch.serialization, name)
)
_BACKWARD = Patch(torch.autograd, "backward")
# Forward passes without a step after which an optimizer is looked for.
_PASSES = 3


class TorchWatch:
    """Hooks on one model, from `start` to `close`.

    A step ends with the step of the optimizer; without an optimizer, with the next forward pass after a `backward`. Four hooks
    are called in every step: before the forward pass, in `backward`, before and after the optimizer. Those that reduce tensors
    are added before a step that needs them and removed after it, so that other steps cost a few microseconds.

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
        self.model, self.spans = model, options.spans
        self._training, self._options = training, options
        self._optimizer = _innermost(optimizer)
        self._guard = Guard("watch", file.problem, self._release, uncompiled)
        self._selection = Selection(model, options.collections, options.patterns, options.prefix)
        self._number = file.number(model)
        self._reducer = StepReducer(model, self._number, self._selection, options)
        self._losses = Losses(model, loss, options)
        self._writer = BatchWriter(file)
        self._loop = loop_of(track.work, training)
        self._amounts = StepAmounts(model, self._loop, track.work, options)
        self._gaps = Gaps(file, model, self._losses if "losses" in self._selection else None, self._amounts)
        self._here = (os.getpid(), threading.get_ident())
        self._others: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()
        self._removals: list[Callable[[], None]] = []
        self._step_removals: list[Callable[[], None]] = []  # of the hooks of the step in progress
        self._step = training.step
        self._ended = 0  # steps so far
        self._passes = 0  # forward passes in the step in progress
        self._is_watched = False  # whether the step in progress is watched
        self._is_by_hand: bool | None = None  # whether there is no optimizer, as far as that is known
        self._backwards = 0  # calls of `backward` in the step in progress, without an optimizer

    def start(self) -> None:
        """Add the hooks. The step in progress is the first one."""
        function = self._guard.function
        self._removals.append(before_forward(self.model, function(self._forward_begins)))
        if "losses" in self._selection:
            self._removals.extend(self._losses.hook(self._guard))
        self._removals.append(before_step(self._guard.result(self._step_begins)))
        self._removals.append(after_step(function(self._step_ended)))
        self._loop.join(self, self._guard)
        self._removals.append(lambda: self._loop.leave(self))
        self._amounts.start(self._guard)
        if self._options.spans:
            for patch in _SAVES:
                patch.add(self._saving)
                self._removals.append(functools.partial(patch.remove, self._saving))
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

    def begin_counting(self) -> None:
        """Count operations, if this is the step for it: another model of the loop is called."""
        self._amounts.begin_counting()

    def other_stepped(self) -> None:
        """Note that the optimizer of another model has stepped."""
        self._losses.share()

    def _release(self) -> None:
        """End what must not stay after an error: the counter of operations, and hooks on activations."""
        self._amounts.close()
        self._reducer.end()

    def _finish(self) -> None:
        if not is_first_rank():
            return
        self._gaps.report(self._ended, is_over=True)
        batch = Batch(max(0, self._step - 1), self._number)
        self._losses.end_step(is_over=True)
        self._losses.add_to(batch)
        self._writer.send(batch)

    # Steps

    def _begin_step(self) -> None:
        self._is_watched = self._step % self._options.every == 0 and is_first_rank()
        if self._is_watched:
            self._step_removals.append(after_forward(self.model, self._guard.function(self._forward_ended)))
            self._reducer.begin(self._step, self._guard)
            self._losses.batch = self._reducer.batch if "labels" in self._selection else None

    def _forward_begins(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        is_training = module.training
        phase = "train" if is_training else "evaluate"
        if phase != self._training.in_phase:
            self._loop.phase(phase)
        if not is_training:
            self._losses.begin_validation()
            self._amounts.pause()
            return
        if not torch.is_grad_enabled():
            return
        if self._is_by_hand is None and self._passes >= _PASSES and not self._ended:
            self._follow_backward()
        elif self._is_by_hand and self._backwards:
            self._end_step(None)
        self._passes += 1
        self._amounts.forward(self, args, kwargs)
        if self._reducer.batch is not None:
            self._reducer.inputs((*args, *kwargs.values()))

    def _forward_ended(self, module: nn.Module, _: tuple[Any, ...], output: Any) -> None:
        if module.training:
            self._reducer.outputs(output)

    def _step_begins(self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Reduce the gradients; those that a closure computes, when it has computed them."""
        if not self._is_ours(optimizer):
            return None
        is_positional = len(args) > 1
        closure = args[1] if is_positional else kwargs.get("closure")
        if isinstance(closure, nn.Module) or not callable(closure):  # gradients are there already
            self._amounts.stop()
            if self._is_watched:
                self._reducer.gradients(optimizer)
            return None
        if not self._is_watched:
            return None
        self._reducer.keep_weights()
        reduce: list[Callable[..., None]] = [self._guard.function(self._reducer.gradients)]

        def called() -> None:
            while reduce:  # later calls are those of a line search
                reduce.pop()(optimizer)

        observed = followed(closure, called)
        if observed is None:
            self._gaps.objects()
            return None
        return ((optimizer, observed, *args[2:]), kwargs) if is_positional else (args, {**kwargs, "closure": observed})

    def _step_ended(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if optimizer is self._optimizer or self._is_ours(optimizer):
            self._is_by_hand = False
            self._end_step(optimizer)

    def _end_step(self, optimizer: torch.optim.Optimizer | None) -> None:
        self._amounts.stop()
        self._losses.end_step()
        if self._is_watched:
            self._end_watched(optimizer)
        if self._loop.end_step(self) and self._options.spans:
            self._training.end_step()
        self._step += 1
        self._ended += 1
        self._amounts.end_step()
        if self._writer.pending:
            self._writer.poll()
        if self._ended <= Gaps.STEPS:
            self._check_calls()
        self._passes = self._backwards = 0
        self._begin_step()

    def _end_watched(self, optimizer: torch.optim.Optimizer | None) -> None:
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
            ours = {id(parameter) for parameter in self.model.parameters()}
            if any(id(parameter) in ours for group in optimizer.param_groups for parameter in group["params"]):
                self._optimizer = optimizer
            else:
                self._others.add(optimizer)
        return optimizer is self._optimizer

    # Scripts that call the model or its optimizer otherwise

    def _check_calls(self) -> None:
        """Follow the compiled form of a model that is not called itself, in the first steps; report what is missing."""
        if not self._passes and self._ended == 1:
            call = compiled_form(self.model, self._guard.function(self._forward_begins))
            if call is not None:
                self._removals.append(call)
                self._amounts.is_countable = False
        if self._ended == Gaps.STEPS and is_first_rank():
            self._gaps.report(self._ended)

    def _follow_backward(self) -> None:
        """End steps by forward passes where no optimizer has the parameters of the model."""
        self._is_by_hand = not has_optimizer(self.model)
        if self._is_by_hand:
            called = self._guard.function(self._differentiated)
            wrap = functools.partial(_after, called)
            _BACKWARD.add(wrap)
            self._removals.append(lambda: _BACKWARD.remove(wrap))

    def _differentiated(self) -> None:
        if self._is_by_hand and self.model.training:
            self._backwards += 1
            if self._is_watched:
                self._reducer.gradients(None)

    # Checkpoints and hooks

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


def _after(called: Callable[[], None], function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what calls a function after another one."""

    def replacement(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        called()
        return result

    return replacement


def _innermost(optimizer: Any) -> Any:
    """Return the optimizer within the wrappers of frameworks, whose steps PyTorch's hooks see."""
    while isinstance(getattr(optimizer, "optimizer", None), torch.optim.Optimizer):
        optimizer = optimizer.optimizer
    return optimizer
