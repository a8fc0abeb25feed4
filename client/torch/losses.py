"""Losses of the steps since the last row, kept on their device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from hypergauge.client.guard import Guard
from hypergauge.client.options import WatchOptions
from hypergauge.client.torch import reductions
from hypergauge.client.torch.batch import Batch
from hypergauge.client.torch.hooks import after_forward
from hypergauge.client.torch.labels import class_shares
from hypergauge.client.torch.patches import Patch, Wrap
from hypergauge.client.torch.reductions import Value
from hypergauge.client.torch.work import divisor_of, found, loss_of

__all__ = ["Losses"]

_BACKWARD = Patch(torch.autograd, "backward")
# PyTorch before 2.3 has it elsewhere.
_SCALE = Patch(getattr(torch.amp, "GradScaler", None) or torch.cuda.amp.GradScaler, "scale")
# Most losses between two rows; with more, some of many micro-batches are left out.
_MOST = 10_000


class Losses:
    """Losses of training and validation.

    A step may have several losses. If a script divides each of them by their number, as for an accumulation of gradients, the
    loss of the step is the mean of the undivided ones. The loss belongs to the model whose optimizer steps next.

    Parameters
    ----------
    loss
        Module whose output is the loss. Otherwise the loss is the tensor whose ``backward`` is called, before a scaler of
        gradients multiplies it, and that of a validation is what the model returns as ``loss``.
    options
        Options of the watch: the text before all names, and whether the losses of a step are parts of one in any case.

    Attributes
    ----------
    batch
        Receives the shares of classes when a module computes a loss; ``None`` for none.
    count, vectors
        Losses so far, and calls of ``backward`` for tensors of several elements, which are no losses.
    """

    def __init__(self, model: nn.Module, loss: object, options: WatchOptions) -> None:
        self.batch: Batch | None = None
        self.count = self.vectors = 0
        self._model, self._module = model, loss if isinstance(loss, nn.Module) else None
        self._prefix, self._are_parts = options.prefix, options.partial_losses
        # Losses of the step in progress with their divisors, and how many of them another model has too.
        self._step: list[tuple[Value, float | None]] = []
        self._shared = 0
        self._accumulation = 0.0  # divisor of the losses of an earlier step
        self._training: list[Value] = []
        self._validation: list[Value] = []
        self._unscaled: tuple[Tensor, float | None] | None = None
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

    def share(self) -> None:
        """Note that the losses so far may be those of another model, whose optimizer has stepped."""
        self._shared = len(self._step)

    def end_step(self, *, is_over: bool = False) -> None:
        """End a step: combine its losses where they are parts of one. After the last step, those of other models are left out."""
        step, self._step = self._step, []
        if self._shared:
            own, self._shared = step[self._shared :], 0
            step = own if own or is_over else step
        if len(step) == 1 and not self._accumulation:  # as almost always
            self._training.append(step[0][0])
        elif step:
            self._training.extend(self._combined(step))
        del self._training[_MOST:]

    def add_to(self, batch: Batch) -> None:
        """Add the reductions of all losses to a batch, and start anew."""
        for name, kept in (("loss", self._training), ("val_loss", self._validation)):
            if kept:
                [values] = reductions.reduced([_stacked(kept)])
                batch.add("losses", self._prefix + name, len(kept), dict(zip(reductions.BASIC, values)))
            kept.clear()

    def _combined(self, step: list[tuple[Value, float | None]]) -> list[Value]:
        values, number = [value for value, _ in step], len(step)
        # The divisor of the first loss is unknown where none was expected.
        divisors = {divisor for _, divisor in step if divisor is not None}
        divisor = divisors.pop() if len(divisors) == 1 else 1.0
        if divisor > 1 and (divisor == self._accumulation or 1 < number <= divisor):
            self._accumulation = divisor
            return [_stacked(values).sum() * (divisor / number)]
        if self._are_parts and number > 1:
            return [_stacked(values).sum()]
        return values

    def _computed(self, _: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        output = _scalar(output)
        if output is not None:
            if self._model.training:
                self._keep(output.detach().float().mean(), 1.0)
            else:
                self._validation.append(_kept(output.detach().float().mean()))
        if self.batch is not None and self._model.training:
            for collection, name, size, share in class_shares(args):
                self.batch.add(collection, self._prefix + name, size, {"mean": share})

    def _returned(self, module: nn.Module, _: tuple[Any, ...], output: Any) -> None:
        if module.training:
            self._end_validation()
        elif (loss := loss_of(output)) is not None and len(self._validation) < _MOST:
            self._validation.append(_kept(loss))

    def _end_validation(self) -> None:
        if self._unhook_validation is not None:
            self._unhook_validation()
            self._unhook_validation = None

    def _scaled(self, _: object, outputs: Any, *__: Any) -> None:
        self._unscaled = (outputs.detach(), self._divisor(outputs)) if isinstance(outputs, Tensor) else None

    def _differentiated(self, tensors: Any, *_: Any, **__: Any) -> None:
        unscaled, self._unscaled = self._unscaled, None
        if not self._model.training:
            return
        roots = tensors if isinstance(tensors, (list, tuple)) else (tensors,)
        if not roots or not all(isinstance(root, Tensor) and root.numel() == 1 for root in roots):
            self.vectors += 1
        elif unscaled is not None:
            self._keep(*unscaled)
        elif len(roots) == 1:
            self._keep(roots[0], self._divisor(roots[0]))
        else:
            self._keep(torch.stack([root.detach().reshape(()) for root in roots]).sum(), None)

    def _divisor(self, loss: Tensor) -> float | None:
        # To look at the graph costs time.
        return divisor_of(loss) if self._step or self._accumulation else None

    def _keep(self, loss: Tensor, divisor: float | None) -> None:
        self.count += 1
        if len(self._step) < _MOST:
            self._step.append((_kept(loss), divisor))


def _kept(loss: Tensor) -> Value:
    # A CPU has the number already; elsewhere nothing waits for it, and the next step may overwrite the tensor.
    return loss.item() if loss.is_cpu else loss.detach().reshape(()).clone()


def _scalar(output: Any) -> Tensor | None:
    """Return the loss among the results of a module: a tensor, or the first one of a tuple or dictionary."""
    if not isinstance(output, Tensor):
        output = loss_of(output) if loss_of(output) is not None else next((one for _, one in found(output)), None)
    return output if output is not None and output.numel() else None


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
