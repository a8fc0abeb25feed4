"""Floating-point operations of a training step, counted once."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack
from torch.utils.flop_counter import flop_registry

__all__ = ["FlopCounter", "is_compiled", "is_countable"]


class FlopCounter(TorchDispatchMode):  # type: ignore[misc]
    """Counter of the operations of matrix products, convolutions and attention, forward and backward.

    It is `torch.utils.flop_counter` without its table by module. An operation that a formula does not understand counts
    nothing.
    """

    def __init__(self) -> None:
        super().__init__()
        self.flops = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the operation and count it."""
        result = func(*args, **(kwargs or {}))
        formula = flop_registry.get(func._overloadpacket)
        if formula is not None:
            with contextlib.suppress(Exception):
                self.flops += formula(*args, **(kwargs or {}), out_val=result)
        return result


def is_countable(model: torch.nn.Module) -> bool:
    """Return whether operations can be counted: no part is compiled, and nothing else follows them as a counter does."""
    return not is_compiled(model) and not _get_current_dispatch_mode_stack()


def is_compiled(model: torch.nn.Module) -> bool:
    """Return whether a part of the model is compiled. Its operations cannot be counted, nor its activations hooked."""
    return any(
        "_orig_mod" in module._modules or getattr(module, "_compiled_call_impl", None) is not None
        for module in model.modules()
    )
