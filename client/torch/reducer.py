"""Reductions of a model's tensors in one step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from hypergauge.client.options import WatchOptions
from hypergauge.client.torch import reductions
from hypergauge.client.torch.batch import Batch
from hypergauge.client.torch.flops import is_compiled
from hypergauge.client.torch.saved import SavedTensors
from hypergauge.client.torch.selection import Selection
from hypergauge.client.torch.work import tensors

__all__ = ["StepReducer"]

_PERCENTILES = ("p05", "p25", "p50", "p75", "p95")


class StepReducer:
    """Reductions of the chosen tensors, from the begin of a watched step to its end.

    Parameters
    ----------
    number
        Number of the model.

    Attributes
    ----------
    batch
        Reductions of the step in progress; ``None`` if it is not watched.
    """

    def __init__(self, model: nn.Module, number: int, selection: Selection, options: WatchOptions) -> None:
        self.batch: Batch | None = None
        self._model, self._number, self._selection = model, number, selection
        self._quantiles, self._prefix = options.quantiles, options.prefix
        self._saved = SavedTensors(options.folder, tuple(options.save)) if options.save else None
        self._step = 0
        self._activations: list[Callable[[], None]] = []
        self._before: dict[str, Tensor] = {}

    def begin(self, step: int, guard: Callable[..., Callable[..., None]]) -> None:
        """Begin a watched step: hook the modules whose outputs are watched, each within `guard`."""
        self.batch, self._step = Batch(step, self._number), step
        if is_compiled(self._model):
            return
        for name, collection, module, bounds in self._selection.modules():
            hook = guard(self._output(name, collection, bounds))
            self._activations.append(module.register_forward_hook(hook).remove)

    def end(self) -> None:
        """End the step and remove its hooks. Idempotent."""
        self._remove_activations()
        self.batch = None
        self._before = {}

    def inputs(self, values: tuple[Any, ...]) -> None:
        """Reduce the inputs of the model, if they are chosen."""
        if self.batch is not None and "inputs" in self._selection:
            self._reduce_all("inputs", tensors(values, f"{self._prefix}input"))

    def outputs(self, value: Any) -> None:
        """Reduce the outputs of the model, if they are chosen. Activations are those of the first forward pass in a step."""
        self._remove_activations()
        if self.batch is not None and "outputs" in self._selection:
            self._reduce_all("outputs", tensors((value,), f"{self._prefix}output"))

    def gradients(self, optimizer: torch.optim.Optimizer) -> None:
        """Reduce the gradients, and keep a part of the weights before they change."""
        if self.batch is None:
            return
        # A fused optimizer gets gradients as a scaler has multiplied them.
        scale = getattr(optimizer, "grad_scale", None)
        for name, collections, parameter in self._selection.parameters():
            if parameter.grad is not None and "gradients" in self._selection:
                self._reduce("gradients", name, parameter.grad if scale is None else parameter.grad / scale)
            if collections and (flat := reductions.local(parameter)) is not None:
                self._before[name] = reductions.strided(flat).clone()

    def weights(self, optimizer: torch.optim.Optimizer) -> None:
        """Reduce the weights after they changed, the change, and the optimizer's state if that is chosen."""
        if self.batch is None:
            return
        for name, collections, parameter in self._selection.parameters():
            for collection in collections:
                self._reduce(collection, name, parameter)
                flat = reductions.local(parameter)
                if name in self._before and flat is not None:
                    ratio = reductions.update_ratio(self._before[name], reductions.strided(flat))
                    self.batch.add(collection, name, flat.numel(), {"update_ratio": ratio})
        if "optimizer" in self._selection:
            self._reduce_all("optimizer", list(self._selection.state(optimizer)))

    def _remove_activations(self) -> None:
        activations, self._activations = self._activations, []
        for remove in activations:
            remove()

    def _output(self, name: str, collection: str, bounds: tuple[float, float] | None) -> Callable[..., None]:
        def reduce(module: nn.Module, _: tuple[Any, ...], output: Any) -> None:
            if self.batch is not None and module.training and isinstance(output, Tensor):
                self._reduce(collection, name, output, bounds)

        return reduce

    def _reduce_all(self, collection: str, found: Sequence[tuple[str, Tensor]]) -> None:
        for name, tensor in found:
            self._reduce(collection, name, tensor)

    def _reduce(self, collection: str, name: str, tensor: Tensor, bounds: tuple[float, float] | None = None) -> None:
        flat = reductions.local(tensor)
        if flat is None or self.batch is None:
            return
        values = dict(zip(reductions.BASIC, reductions.reduced(flat)))
        if bounds is not None:
            values["saturated"] = reductions.saturated(flat, *bounds)
        if self._quantiles:
            values.update(zip(_PERCENTILES, reductions.quantiles(flat)))
        self.batch.add(collection, name, flat.numel(), values)
        if self._saved is not None:
            self._saved.offer(self._step, collection, name, tensor)
