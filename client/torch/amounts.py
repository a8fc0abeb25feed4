"""Samples, tokens and floating-point operations of the steps of a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from hypergauge.client.guard import Guard
from hypergauge.client.options import WatchOptions
from hypergauge.client.spans import Work
from hypergauge.client.torch.flops import FlopCounter, is_countable, is_counting
from hypergauge.client.torch.hooks import before_forward
from hypergauge.client.torch.loop import Loop, Member
from hypergauge.client.torch.work import amounts

__all__ = ["StepAmounts"]

# Step whose operations are counted: the first one may initialize.
_COUNTED_STEP = 1


class StepAmounts:
    """Amounts of work of the model's forward passes.

    Operations are counted in one step, whichever model of the loop they belong to, and in other steps estimated by the samples
    that pass the model.

    Attributes
    ----------
    passes
        Forward passes in training so far.
    leads, has_samples
        Whether some of them count, and whether their samples are known.
    is_countable
        Whether operations can be counted.
    """

    def __init__(self, model: nn.Module, loop: Loop, work: Work, options: WatchOptions) -> None:
        self.passes = 0
        self.leads = self.has_samples = False
        self.is_countable = True
        self._model, self._loop, self._work, self._options = model, loop, work, options
        self._step = 0
        self._counter: FlopCounter | None = None
        self._flops_per_sample = options.flops or None
        self._is_counted = options.flops is not None
        self._samples = 0.0  # of the forward passes while operations are counted
        self._axis = 0
        # Arguments of a forward pass of which the axis of the batch is unknown, until a layer within it shows it.
        self._undecided: tuple[tuple[Any, ...], dict[str, Any]] | None = None
        self._unhook: Callable[[], None] | None = None

    def start(self, guard: Guard) -> None:
        """Look for the axis of the batch where a layer has it second."""
        layer = next((layer for layer in self._model.modules() if getattr(layer, "batch_first", True) is False), None)
        if layer is not None and self._options.samples is None:
            self._unhook = before_forward(layer, guard.function(self._layer_begins))

    def forward(self, member: Member, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Add the amounts of a forward pass in training."""
        self.passes += 1
        if self._counter is not None and self._is_counted:
            self._leave()  # at the end of the step that was impossible
        if not self._loop.leads(member):
            return
        self.leads = True
        self._decide()
        self.begin_counting()
        if self._unhook is None:
            self._add(args, kwargs)
        else:
            self._undecided = (args, kwargs)

    def pause(self) -> None:
        """Count no operations until the next forward pass in training."""
        if self._counter is not None:
            self._counter.paused = True

    def begin_counting(self) -> None:
        """Count operations from a forward pass of any model on, if this is the step for it."""
        if self._is_counted or self._step < _COUNTED_STEP or not self.is_countable:
            return
        if self._counter is None:
            if is_counting():  # for another model
                return
            self.is_countable = is_countable(self._model)
            if not self.is_countable:
                return
            counter = FlopCounter()
            if not counter.enter():
                return
            self._counter = counter
        self._counter.paused = False

    def stop(self) -> None:
        """End the operations of the step, which began with the first forward pass of any model since the last step."""
        self._decide()
        if self._counter is not None:
            if not self._is_counted:
                self._is_counted = True
                self._flops_per_sample = self._counter.flops / self._samples if self._samples else None
                self._work.add(flops=float(self._counter.flops))
            self._leave()

    def end_step(self) -> None:
        """Begin the next step."""
        self._step += 1

    def close(self) -> None:
        """End the counting, and the hook."""
        if self._unhook is not None:
            self._unhook()
            self._unhook = None
        self._is_counted = True
        self._leave()

    def _add(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        samples, tokens = amounts(args, kwargs, self._options, self._loop.batch_size, self._axis)
        self.has_samples |= samples is not None
        passed = 1.0 if samples is None else samples
        flops = None if self._flops_per_sample is None else passed * self._flops_per_sample
        if self._counter is not None and not self._is_counted:
            self._samples += passed
        used = self._loop.used(samples) if self._options.samples is None else samples
        if used != samples and used is not None and tokens is not None and samples:
            tokens *= used / samples
        self._work.add(samples=used, tokens=tokens, flops=flops)

    def _decide(self) -> None:
        undecided, self._undecided = self._undecided, None
        if undecided is not None:
            self._add(*undecided)

    def _layer_begins(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Find the axis of the batch among those of the model's first tensor, by the input of a layer that has it second."""
        undecided = self._undecided
        if undecided is None:
            return
        value = args[0] if args else next(iter(kwargs.values()), None)
        sizes = getattr(value, "batch_sizes", None)  # of a packed sequence
        if sizes is not None:
            size = int(sizes[0])
        elif isinstance(value, Tensor) and value.dim() > 2:
            size = value.shape[1]
        else:
            return
        lengths = [amounts(*undecided, self._options, None, axis)[0] for axis in (0, 1)]
        if lengths[0] != lengths[1]:
            self._axis = 1 if lengths[0] != size and lengths[1] == size else 0
            if self._unhook is not None:
                self._unhook()
                self._unhook = None
        self._decide()

    def _leave(self) -> None:
        if self._counter is not None and self._counter.leave():
            self._counter = None
