"""Amounts of work in a forward pass, and tensors among its arguments and results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from hypergauge.client.guard import suppress_own
from hypergauge.client.options import WatchOptions

__all__ = ["amounts", "divisor_of", "found", "loss_of", "tensors"]

_UNKNOWN = object()


def amounts(
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    options: WatchOptions,
    batch_size: int | None = None,
    axis: int = 0,
) -> tuple[float | None, float | None]:
    """Return the samples and tokens of a forward pass.

    Unless the options say otherwise, the samples are the length of the first tensor along the axis of the batch. The tokens are
    the elements of ``input_ids``, or of a first tensor of integers with two dimensions.

    Parameters
    ----------
    batch_size
        Samples of the batch from a loader. If only the second axis has this length, it is that of the batch.
    axis
        Axis of the batch, as far as it is known.
    """
    first = kwargs.get("input_ids", args[0] if args else None)
    if not isinstance(first, Tensor):
        first = next((one for _, one in tensors((*args, *kwargs.values()), "")), None)
    samples = tokens = None
    if first is not None and (shape := first.shape):
        if batch_size is not None and len(shape) > 1 and batch_size in shape[:2]:
            axis = 0 if shape[0] == batch_size else 1
        samples = float(shape[axis] if axis < len(shape) else shape[0])
        if len(shape) == 2 and not first.is_floating_point() and first.dtype != torch.bool:
            tokens = float(first.numel())
    if options.samples is not None:
        samples = _given(options.samples, args, kwargs)
    if options.tokens is not None:
        tokens = _given(options.tokens, args, kwargs)
    return samples, tokens


def tensors(values: tuple[Any, ...], name: str) -> list[tuple[str, Tensor]]:
    """Return name and tensor of those among the values, in lists and dictionaries too: ``input.0``, ``output.logits``."""
    return [(name + path, tensor) for path, tensor in found(values)]


def loss_of(output: Any) -> Tensor | None:
    """Return the loss that a model returns as its attribute or item ``loss``, or as the one number in a tuple."""
    if isinstance(output, (tuple, list)) and not hasattr(output, "loss"):
        numbers = [one for one in output if isinstance(one, Tensor) and not one.dim() and one.is_floating_point()]
        return numbers[0] if len(numbers) == 1 else None
    loss = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    return loss if isinstance(loss, Tensor) and loss.numel() == 1 else None


def divisor_of(loss: Tensor) -> float:
    """Return the whole number by which a loss was divided last; 1 if it was not, or if the quotient is a mean."""
    function = loss.grad_fn
    kind = type(function).__name__
    if kind not in ("DivBackward0", "MulBackward0"):
        return 1.0
    number = _saved_other(function)
    if type(number) is not Tensor or number.dim() or not number.is_cpu or number.requires_grad:
        return 1.0
    [(dividend, _), *_] = function.next_functions
    if type(dividend).__name__.startswith("Sum"):
        return 1.0
    with torch._C._DisableTorchDispatch():  # to a mode, a number is no tensor
        divisor = number.item()
    if not divisor:
        return 1.0
    divisor = divisor if kind == "DivBackward0" else 1 / divisor
    whole = float(round(divisor))
    return whole if whole > 1 and abs(divisor - whole) < 1e-4 * whole else 1.0


def _saved_other(function: Any) -> Any:
    """Return the number that a quotient or product has saved, unless hooks have packed it: those of the script unpack it once."""
    saved = getattr(function, "_raw_saved_other", None)
    if saved is None or getattr(saved, "unpack_hook", _UNKNOWN) is not None:
        return None
    with suppress_own(Exception):  # it may have been released
        return saved.data
    return None


def _given(amount: float | Callable[..., float], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> float:
    return float(amount(*args, **kwargs)) if callable(amount) else float(amount)


def found(value: Any, path: str = "") -> Iterator[tuple[str, Tensor]]:
    """Yield path and tensor of those in lists, tuples and dictionaries."""
    if isinstance(value, Tensor):
        yield path, value
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield from found(one, f"{path}.{key}")
    elif isinstance(value, (list, tuple)):
        for number, one in enumerate(value):
            yield from found(one, f"{path}.{number}")
