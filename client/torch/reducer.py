"""Reductions of a model's tensors in one step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from hypergauge.client.guard import Guard
from hypergauge.client.options import WatchOptions
from hypergauge.client.torch import reductions
from hypergauge.client.torch.batch import Batch
from hypergauge.client.torch.flops import is_compiled
from hypergauge.client.torch.hooks import after_forward
from hypergauge.client.torch.saved import SavedTensors
from hypergauge.client.torch.selection import Selection
from hypergauge.client.torch.work import found, tensors

__all__ = ["StepReducer"]

_GRADIENTS: tuple[str, ...] = ("gradients",)
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
        # Collections and tensors of the parameters by name, and a part of those in collections before the step.
        self._parameters: dict[str, tuple[tuple[str, ...], Tensor]] = {}
        self._before: dict[str, Tensor] = {}

    def begin(self, step: int, guard: Guard) -> None:
        """Begin a watched step: hook the modules whose outputs are watched, each within `guard`."""
        self.batch, self._step = Batch(step, self._number), step
        if is_compiled(self._model):
            return
        for name, collection, module, bounds in self._selection.modules():
            hook = guard.function(self._output(name, collection, bounds))
            self._activations.append(after_forward(module, hook))

    def end(self) -> None:
        """End the step and remove its hooks. Idempotent."""
        self._remove_activations()
        self.batch = None
        self._parameters, self._before = {}, {}

    def inputs(self, values: tuple[Any, ...]) -> None:
        """Reduce the inputs of the model, if they are chosen."""
        if "inputs" in self._selection:
            self._reduce((("inputs",), *found) for found in tensors(values, f"{self._prefix}input"))

    def outputs(self, value: Any) -> None:
        """Reduce the outputs of the model, if they are chosen. Activations are those of the first forward pass in a step."""
        self._remove_activations()
        if "outputs" in self._selection:
            self._reduce((("outputs",), *found) for found in tensors((value,), f"{self._prefix}output"))

    def gradients(self, optimizer: torch.optim.Optimizer | None) -> None:
        """Reduce the gradients, and keep a part of the weights if that has not happened."""
        if self.batch is None:
            return
        if not self._parameters:
            self.keep_weights()
        if "gradients" in self._selection:
            gradients = ((name, one.grad) for name, (_, one) in self._parameters.items())
            found = [(_GRADIENTS, name, gradient) for name, gradient in gradients if gradient is not None]
            scale = getattr(optimizer, "grad_scale", None)
            if scale is None:
                self._reduce(found)
            else:
                # A fused optimizer gets gradients as a scaler has multiplied them. There is memory for one at a time.
                for collections, name, gradient in found:
                    self._reduce([(collections, name, gradient / scale)])

    def keep_weights(self) -> None:
        """Keep a part of the weights before they change."""
        if self.batch is None:
            return
        self._parameters = {name: (collections, one) for name, collections, one in self._selection.parameters()}
        for name, (collections, parameter) in self._parameters.items():
            if collections and (flat := reductions.local(parameter)) is not None:
                self._before[name] = reductions.sample(flat).clone()

    def weights(self, optimizer: torch.optim.Optimizer | None) -> None:
        """Reduce the weights after they changed, the change, and the optimizer's state if that is chosen."""
        if self.batch is None:
            return
        flats = self._reduce((collections, name, one) for name, (collections, one) in self._parameters.items())
        names = [name for name in self._before if name in flats]
        ratios = reductions.update_ratios(
            [self._before[name] for name in names], [reductions.sample(flats[name]) for name in names]
        )
        for name, ratio in zip(names, ratios):
            for collection in self._parameters[name][0]:
                self.batch.add(collection, name, flats[name].numel(), {"update_ratio": ratio})
        if optimizer is not None and "optimizer" in self._selection:
            self._reduce((("optimizer",), *found) for found in self._selection.state(optimizer))

    def _remove_activations(self) -> None:
        activations, self._activations = self._activations, []
        for remove in activations:
            remove()

    def _output(self, name: str, collection: str, bounds: tuple[float, float] | None) -> Callable[..., None]:
        def reduce(module: nn.Module, _: tuple[Any, ...], output: Any) -> None:
            if module.training:
                self._reduce((((collection,), name + path, tensor) for path, tensor in found(output)), bounds)

        return reduce

    def _reduce(
        self, found: Iterable[tuple[Sequence[str], str, Tensor]], bounds: tuple[float, float] | None = None
    ) -> dict[str, Tensor]:
        """Add the reductions of tensors to the batch, by their collections and names; return their elements by name."""
        if self.batch is None:
            return {}
        kept = [(*one, flat) for one in found if one[0] and (flat := reductions.local(one[2])) is not None]
        for (collections, name, tensor, flat), numbers in zip(kept, reductions.reduced([flat for *_, flat in kept])):
            values = dict(zip(reductions.BASIC, numbers))
            if bounds is not None:
                values["saturated"] = reductions.saturated(flat, *bounds)
            if self._quantiles:
                values.update(zip(_PERCENTILES, reductions.quantiles(flat)))
            for collection in collections:
                self.batch.add(collection, name, flat.numel(), values)
                if self._saved is not None:
                    self._saved.offer(self._step, collection, name, tensor)
        return {name: flat for _, name, _, flat in kept}
