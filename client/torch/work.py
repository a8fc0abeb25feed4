"""Amounts of work in a forward pass, and tensors among its arguments and results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from hypergauge.client.options import WatchOptions

__all__ = ["amounts", "loss_of", "tensors"]


def amounts(
    args: tuple[Any, ...], kwargs: Mapping[str, Any], options: WatchOptions
) -> tuple[float | None, float | None]:
    """Return the samples and tokens of a forward pass.

    Unless the options say otherwise, the samples are the length of the first tensor, and the tokens are the elements of
    ``input_ids``, or of a first tensor of integers with two dimensions.
    """
    first = kwargs.get("input_ids", args[0] if args else None)
    if not isinstance(first, Tensor):
        first = next((one for _, one in tensors((*args, *kwargs.values()), "")), None)
    samples = tokens = None
    if first is not None and (shape := first.shape):
        samples = float(shape[0])
        if len(shape) == 2 and not first.is_floating_point() and first.dtype != torch.bool:
            tokens = float(first.numel())
    if options.samples is not None:
        samples = _given(options.samples, args, kwargs)
    if options.tokens is not None:
        tokens = _given(options.tokens, args, kwargs)
    return samples, tokens


def tensors(values: tuple[Any, ...], name: str) -> list[tuple[str, Tensor]]:
    """Return name and tensor of those among the values, in lists and dictionaries too: ``input.0``, ``output.logits``."""
    return [(name + path, tensor) for path, tensor in _found(values, "")]


def loss_of(output: Any) -> Tensor | None:
    """Return the loss that a model returns as its attribute or item ``loss``; ``None`` if there is none."""
    loss = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    return loss if isinstance(loss, Tensor) and loss.numel() == 1 else None


def _given(amount: float | Callable[..., float], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> float:
    return float(amount(*args, **kwargs)) if callable(amount) else float(amount)


def _found(value: Any, path: str) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        yield path, value
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield from _found(one, f"{path}.{key}")
    elif isinstance(value, (list, tuple)):
        for number, one in enumerate(value):
            yield from _found(one, f"{path}.{number}")
