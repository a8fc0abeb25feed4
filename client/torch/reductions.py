"""Reductions of tensors, computed on their device.

On a CPU they are computed in parts that fit its cache: one pass through memory instead of seven. On other devices each is one
kernel, and nothing waits for the results.
"""

from __future__ import annotations

import math
from typing import Union

import torch
from torch import Tensor

__all__ = ["BASIC", "QUANTILES", "Value", "local", "quantiles", "reduced", "saturated", "strided", "update_ratio"]

Value = Union[float, Tensor]

# Reductions in the order of the values of `reduced`.
BASIC = ("min", "max", "mean", "std", "l1", "l2", "zeros", "nonfinite")
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
# Elements of a part: 256 KiB of float32.
_PART = 1 << 16


def local(tensor: Tensor) -> Tensor | None:
    """Return the elements on this process's device as a flat tensor of floats; ``None`` if there are none.

    Of a sparse tensor these are the stored elements, of a tensor that is distributed over devices the local ones.
    """
    tensor = tensor.detach()
    if hasattr(tensor, "to_local"):
        tensor = tensor.to_local()
    if tensor.is_sparse:
        tensor = tensor.coalesce().values()
    if tensor.is_meta or tensor.is_quantized or tensor.layout != torch.strided or not tensor.numel():
        return None
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    flat = tensor.reshape(-1)
    return flat if flat.is_floating_point() else flat.float()


def reduced(flat: Tensor) -> list[Value]:
    """Return the `BASIC` reductions of a flat tensor: numbers on a CPU, else tensors of one element on its device.

    The standard deviation is over all elements (divisor ``n``). If elements are not finite, neither are the results that they
    contribute to.
    """
    if flat.device.type == "cpu":
        return _on_cpu(flat)
    size = flat.numel()
    values = flat if flat.dtype == torch.float64 else flat.float()
    low, high = torch.aminmax(values)
    std, mean = torch.std_mean(values, correction=0)
    norms = [torch.linalg.vector_norm(values, order) for order in (1, 2)]
    # Counts are subtracted as integers: a share near 1 in single precision hides a few elements.
    zeros = (size - torch.count_nonzero(values)) / size
    nonfinite = (size - torch.isfinite(values).sum()) / size
    return [one.float() for one in (low, high, mean, std, *norms, zeros, nonfinite)]


def _on_cpu(flat: Tensor) -> list[Value]:
    size = flat.numel()
    low, high = math.inf, -math.inf
    total = squares = spread = absolutes = 0.0
    nonzero, shift = 0, 0.0
    for number, part in enumerate(flat.split(_PART)):
        least, most = (float(bound) for bound in torch.aminmax(part))
        # The squares of values outside these bounds overflow, or are 0, in single precision.
        small_or_large = not 1e-15 < max(-least, most) < 1e15
        part = part.double() if small_or_large or part.dtype == torch.float64 else part.float()
        # A comparison with NaN is false: NaN must win.
        low = least if not low <= least else low
        high = most if not high >= most else high
        here = float(part.sum())
        if number == 0:
            shift = here / part.numel()
        total += here
        squares += float(part.dot(part))
        # Into one buffer: `count_nonzero` branches at each element, and is 30 times as slow behind a ReLU.
        buffer = torch.empty_like(part)
        absolutes += float(torch.abs(part, out=buffer).sum())
        nonzero += int(torch.ne(part, 0, out=buffer).sum())
        torch.sub(part, shift, out=buffer)
        spread += float(buffer.dot(buffer))
    mean = total / size
    # The spread around a value near the mean: that around zero would lose the digits of a small deviation.
    variance = spread / size - (mean - shift) ** 2
    nonfinite = 0
    if not math.isfinite(low + high):
        nonfinite = size - int(torch.isfinite(flat).sum())
    deviation = math.sqrt(max(variance, 0.0))
    return [low, high, mean, deviation, absolutes, math.sqrt(squares), 1 - nonzero / size, nonfinite / size]


def saturated(flat: Tensor, low: float, high: float) -> Value:
    """Return the share of elements at or beyond the bounds."""
    return ((flat <= low) | (flat >= high)).sum().float() / flat.numel()


def update_ratio(before: Tensor, after: Tensor) -> Value:
    """Return the l2 norm of a change over that of the tensor before; not finite if that was zero."""
    return torch.linalg.vector_norm((after - before).float()) / torch.linalg.vector_norm(before.float())


def strided(flat: Tensor, most: int = _PART) -> Tensor:
    """Return at most `most` elements, at equal distances; all of them if there are no more."""
    return flat if flat.numel() <= most else flat[:: -(-flat.numel() // most)]


def quantiles(flat: Tensor) -> list[Value]:
    """Return the `QUANTILES` of the elements, of a tensor of more than 65,536 those of a `strided` part."""
    part = strided(flat).float()
    return list(torch.quantile(part, torch.tensor(QUANTILES, device=part.device)).unbind())
