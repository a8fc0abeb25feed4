"""Reductions of tensors, computed on their device.

On a CPU they are computed in parts that fit its cache: one pass through memory instead of seven. On other devices each is one
kernel, and nothing waits for the results. Small tensors of the same size are reduced together, as a model has many of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Union

import torch
from torch import Tensor

__all__ = ["BASIC", "QUANTILES", "Value", "local", "quantiles", "reduced", "sample", "saturated", "update_ratios"]

Value = Union[float, Tensor]

# Reductions in the order of the values of `reduced`.
BASIC = ("min", "max", "mean", "std", "l1", "l2", "zeros", "nonfinite")
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
# Elements of a part: 256 KiB of float32.
_PART = 1 << 16
# Most elements of a small tensor, of which a call costs more than the elements, on a CPU and on other devices.
_SMALL, _SMALL_ON_DEVICE = 1 << 10, 1 << 16
# Fewest tensors on a CPU, and most ones, that are reduced together: their copy takes memory.
_FEWEST, _MOST = 4, 64


def local(tensor: Tensor) -> Tensor | None:
    """Return the elements on this process's device as a flat tensor of floats; ``None`` if there are none.

    Of a sparse tensor these are the stored elements, of a tensor that is distributed over devices the local ones.
    """
    tensor = tensor.detach()
    if hasattr(tensor, "to_local"):
        tensor = tensor.to_local()
    if tensor.is_sparse:
        tensor = tensor.coalesce().values()
    if tensor.layout != torch.strided or tensor.is_meta or not tensor.numel():
        return None
    if tensor.is_floating_point():
        return tensor.reshape(-1)
    if tensor.is_quantized:
        return None
    return torch.view_as_real(tensor).reshape(-1) if tensor.is_complex() else tensor.reshape(-1).float()


def reduced(flats: Sequence[Tensor]) -> list[Sequence[Value]]:
    """Return the `BASIC` reductions of flat tensors: numbers on a CPU, else tensors of one element on their device.

    The standard deviation is over all elements (divisor ``n``). If elements are not finite, neither are the results that they
    contribute to.
    """
    results: list[Sequence[Value]] = [()] * len(flats)
    for numbers in _groups(flats):
        first = flats[numbers[0]]
        if first.is_cpu and len(numbers) < _FEWEST:
            for number in numbers:
                results[number] = _in_parts(flats[number])
            continue
        rows = torch.stack([flats[number] for number in numbers]) if len(numbers) > 1 else first[None]
        # The squares of single precision neither overflow nor vanish in double precision, which is slow on a GPU.
        is_double = first.is_cpu or first.dtype == torch.float64
        table = _by_row(rows.double() if is_double else rows.float())
        for number, row in zip(numbers, table.tolist() if first.is_cpu else table.unbind()):
            results[number] = row if first.is_cpu else row.unbind()
    return results


def _groups(flats: Sequence[Tensor]) -> Iterator[list[int]]:
    """Yield the positions of tensors that are reduced together: small ones of the same size, type and device."""
    small: dict[tuple[object, ...], list[int]] = {}
    for number, flat in enumerate(flats):
        size = flat.numel()
        if size > (_SMALL if flat.is_cpu else _SMALL_ON_DEVICE):
            yield [number]
        else:
            small.setdefault((size, flat.dtype, flat.device), []).append(number)
    for numbers in small.values():
        for begin in range(0, len(numbers), _MOST):
            yield numbers[begin : begin + _MOST]


def _by_row(rows: Tensor) -> Tensor:
    """Return the reductions of each row as a row."""
    size = rows.shape[1]
    norms = [torch.linalg.vector_norm(rows, order, 1) for order in (1, 2)]
    # Counts are subtracted as integers: a share near 1 in single precision hides a few elements.
    zeros = (size - torch.count_nonzero(rows, 1)) / size
    nonfinite = (size - torch.isfinite(rows).sum(1)) / size
    columns = [rows.amin(1), rows.amax(1), rows.mean(1), rows.std(1, correction=0), *norms, zeros, nonfinite]
    return torch.stack([column.to(rows.dtype) for column in columns], 1)


def _in_parts(flat: Tensor) -> list[Value]:
    """Return the reductions of a tensor on a CPU."""
    size = flat.numel()
    low, high = math.inf, -math.inf
    total = squares = absolutes = 0.0
    nonzero = 0
    parts = (flat,) if size <= _PART else flat.split(_PART)
    for part in parts:
        least, most = part.amin().item(), part.amax().item()
        part = _squarable(part, least, most)
        # A comparison with NaN is false: NaN must win.
        low = least if not low <= least else low
        high = most if not high >= most else high
        here = part.sum().item()
        total += here
        squares += part.dot(part).item()
        # Into one buffer: `count_nonzero` branches at each element, and is 30 times as slow behind a ReLU.
        buffer = torch.empty_like(part)
        absolutes += here if least >= 0 else torch.abs(part, out=buffer).sum().item()
        nonzero += int(torch.ne(part, 0, out=buffer).sum().item())
    mean = total / size
    variance = squares / size - mean**2
    if variance < mean**2:  # the difference has lost digits
        differences = (_squarable(part, low, high) - mean for part in parts)
        variance = sum(one.dot(one).item() for one in differences) / size
    nonfinite = 0
    if not math.isfinite(low + high):
        nonfinite = size - int(torch.isfinite(flat).sum())
    deviation = math.sqrt(max(variance, 0.0))
    return [low, high, mean, deviation, absolutes, math.sqrt(squares), 1 - nonzero / size, nonfinite / size]


def _squarable(part: Tensor, low: float, high: float) -> Tensor:
    """Return elements between bounds in double precision if their squares overflow, or are 0, in single precision."""
    if part.dtype == torch.float64 or not 1e-15 < max(-low, high) < 1e15:
        return part.double()
    return part.float()


def saturated(flat: Tensor, low: float, high: float) -> Value:
    """Return the share of elements at or beyond the bounds."""
    return ((flat <= low) | (flat >= high)).sum().float() / flat.numel()


def update_ratios(before: Sequence[Tensor], after: Sequence[Tensor]) -> list[Value]:
    """Return the l2 norm of each change over that of the tensor before; not finite if that was zero."""
    if not before:
        return []
    # Calls for a list of tensors, as optimizers make them.
    changes = torch._foreach_norm(torch._foreach_sub(after, before))
    return [change / norm for change, norm in zip(changes, torch._foreach_norm(before))]


def sample(flat: Tensor) -> Tensor:
    """Return at most 65,536 elements, at equal distances, in at least single precision; all of them if there are no more."""
    part = flat if flat.numel() <= _PART else flat[:: -(-flat.numel() // _PART)]
    return part if part.dtype == torch.float64 else part.float()


def quantiles(flat: Tensor) -> list[Value]:
    """Return the `QUANTILES` of the elements, of a large tensor those of a `sample`."""
    part = sample(flat).float()
    return list(torch.quantile(part, torch.tensor(QUANTILES, dtype=part.dtype, device=part.device)).unbind())
