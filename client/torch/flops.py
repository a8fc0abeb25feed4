"""Floating-point operations of a training step, counted once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import flop_counter
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

__all__ = ["FlopCounter", "is_compiled", "is_countable"]


class FlopCounter(TorchDispatchMode):  # type: ignore[misc]
    """Counter of the operations of matrix products, convolutions and attention, forward and backward.

    It is `torch.utils.flop_counter` without its table by module, and with the attention of all backends. An operation that a
    formula does not understand counts nothing.

    Attributes
    ----------
    flops
        Operations so far.
    paused
        Whether operations are not counted, as in an evaluation.
    """

    def __init__(self) -> None:
        super().__init__()
        self.flops, self.paused = 0, False
        self._formulas = {**_attention(), **flop_counter.flop_registry}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the operation and count it."""
        result = func(*args, **(kwargs or {}))
        formula = None if self.paused else self._formulas.get(func._overloadpacket)
        if formula is not None:
            with contextlib.suppress(Exception):
                self.flops += formula(*args, **(kwargs or {}), out_val=result)
        return result

    def leave(self) -> bool:
        """Leave the mode; return whether that was possible. It is not below a mode that the script has entered since."""
        self.paused = True
        modes = _get_current_dispatch_mode_stack()
        if self in modes:
            if modes[-1] is not self:
                return False
            self.__exit__(None, None, None)
        return True


def is_countable(model: torch.nn.Module) -> bool:
    """Return whether operations can be counted: no part is compiled, and nothing else follows them as a counter does."""
    return not is_compiled(model) and not _get_current_dispatch_mode_stack()


def is_compiled(model: torch.nn.Module) -> bool:
    """Return whether a part of the model is compiled. Its operations cannot be counted, nor its activations hooked."""
    return any(
        "_orig_mod" in module._modules or getattr(module, "_compiled_call_impl", None) is not None
        for module in model.modules()
    )


def _attention() -> dict[Any, Callable[..., int]]:
    """Return the formulas of fused attention that PyTorch's table may lack: each backend is an operation of its own.

    None of them contains another one: below the mode, an operation of a backend calls kernels.
    """
    forward = getattr(flop_counter, "sdpa_flop_count", None)
    backward = getattr(flop_counter, "sdpa_backward_flop_count", None)
    formulas: dict[Any, Callable[..., int]] = {}
    if forward is None or backward is None:
        return formulas

    def of_forward(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
        return int(forward(query.shape, key.shape, value.shape))

    def of_backward(gradient: Any, query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
        return int(backward(gradient.shape, query.shape, key.shape, value.shape))

    for backend in (
        "flash_attention_for_cpu", "flash_attention", "efficient_attention", "cudnn_attention", "fused_attention_overrideable",
        "attention_math_for_mps",
    ):  # fmt: skip
        for suffix, formula in (("", of_forward), ("_backward", of_backward)):
            operation = getattr(torch.ops.aten, f"_scaled_dot_product_{backend}{suffix}", None)
            if operation is not None:
                formulas[operation] = formula
    return formulas
