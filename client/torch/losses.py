"""Losses of the steps since the last row, kept on their device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from hypergauge.client.guard import Guard
from hypergauge.client.torch import reductions
from hypergauge.client.torch.batch import Batch
from hypergauge.client.torch.hooks import after_forward
from hypergauge.client.torch.labels import class_shares
from hypergauge.client.torch.patches import Patch, Wrap
from hypergauge.client.torch.reductions import Value
from hypergauge.client.torch.work import loss_of

__all__ = ["Losses"]

_BACKWARD = Patch(Tensor, "backward")
# PyTorch before 2.3 has it elsewhere.
_SCALE = Patch(getattr(torch.amp, "GradScaler", None) or torch.cuda.amp.GradScaler, "scale")
# Most losses between two rows; with more, some of many micro-batches are left out.
_MOST = 10_000


class Losses:
    """Losses of training and validation.

    Parameters
    ----------
    loss
        Module whose output is the loss. Otherwise the loss is the tensor whose ``backward`` is called, before a scaler of
        gradients multiplies it, and that of a validation is what the model returns as ``loss``.
    prefix
        Text before all names.

    Attributes
    ----------
    batch
        Receives the shares of classes when a module computes a loss; ``None`` for none.
    """

    def __init__(self, model: nn.Module, loss: object, prefix: str) -> None:
        self.batch: Batch | None = None
        self._model, self._module = model, loss if isinstance(loss, nn.Module) else None
        self._prefix = prefix
        self._parts = 0  # losses of earlier steps
        self._training: list[Value] = []
        self._validation: list[Value] = []
        self._unscaled: Tensor | None = None
        self._validated: Callable[..., None] | None = None
        self._unhook_validation: Callable[[], None] | None = None

    def hook(self, guard: Guard) -> Iterator[Callable[[], None]]:
        """Add the hooks, each within `guard`; yield functions that remove them."""
        if self._module is not None:
            yield after_forward(self._module, guard.function(self._computed))
            return
        self._validated = guard.function(self._returned)
        yield self._end_validation
        for patch, called in ((_BACKWARD, self._differentiated), (_SCALE, self._scaled)):
            wrap = _before(guard.function(called))
            patch.add(wrap)
            yield lambda patch=patch, wrap=wrap: patch.remove(wrap)  # type: ignore[misc]

    def begin_validation(self) -> None:
        """Follow what the model returns, from the present forward pass to the next one in training."""
        if self._validated is not None and self._unhook_validation is None:
            self._unhook_validation = after_forward(self._model, self._validated)

    def end_parts(self) -> None:
        """Add up the losses of a step, which are parts of one where a framework accumulates gradients."""
        if len(self._training) > self._parts + 1:
            self._training[self._parts :] = [_stacked(self._training[self._parts :]).sum()]
        self._parts = len(self._training)

    def add_to(self, batch: Batch) -> None:
        """Add the reductions of all losses to a batch, and start anew."""
        for name, kept in (("loss", self._training), ("val_loss", self._validation)):
            if kept:
                [values] = reductions.reduced([_stacked(kept)])
                batch.add("losses", self._prefix + name, len(kept), dict(zip(reductions.BASIC, values)))
            kept.clear()
        self._parts = 0

    def _computed(self, _: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        if isinstance(output, Tensor) and output.numel():
            self._keep(self._training if self._model.training else self._validation, output.detach().float().mean())
        if self.batch is not None and self._model.training:
            for collection, name, size, share in class_shares(args):
                self.batch.add(collection, self._prefix + name, size, {"mean": share})

    def _returned(self, module: nn.Module, _: tuple[Any, ...], output: Any) -> None:
        if module.training:
            self._end_validation()
        elif (loss := loss_of(output)) is not None:
            self._keep(self._validation, loss)

    def _end_validation(self) -> None:
        if self._unhook_validation is not None:
            self._unhook_validation()
            self._unhook_validation = None

    def _scaled(self, _: object, outputs: Any, *__: Any) -> None:
        self._unscaled = outputs.detach() if isinstance(outputs, Tensor) else None

    def _differentiated(self, loss: Tensor, *_: Any, **__: Any) -> None:
        if self._unscaled is not None:
            loss, self._unscaled = self._unscaled, None
        if self._model.training and loss.numel() == 1:
            self._keep(self._training, loss)

    def _keep(self, losses: list[Value], loss: Tensor) -> None:
        if len(losses) < _MOST:
            # A CPU has the number already; elsewhere nothing waits for it, and the next step may overwrite the tensor.
            losses.append(loss.item() if loss.is_cpu else loss.detach().reshape(()).clone())


def _before(called: Callable[..., None]) -> Wrap:
    """Return what calls a function before another one, with the same arguments."""

    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        def replacement(*args: Any, **kwargs: Any) -> Any:
            called(*args, **kwargs)
            return function(*args, **kwargs)

        return replacement

    return wrap


def _stacked(losses: list[Value]) -> Tensor:
    """Return losses as one tensor, on the device of those that are tensors."""
    device = next((loss.device for loss in losses if isinstance(loss, Tensor)), None)
    if device is None:
        return torch.tensor(losses, dtype=torch.float32)
    return torch.stack([torch.as_tensor(loss, dtype=torch.float32, device=device) for loss in losses])
