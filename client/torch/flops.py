"""Floating-point operations of a training step, counted once."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils import flop_counter
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

from hypergauge.client.guard import suppress_own
from hypergauge.client.torch.compiler import has_compiled

__all__ = ["FlopCounter", "is_compiled", "is_countable", "is_counting"]

_TORCH = Path(torch.__file__).parent
# Code that restores the thread's dispatch keys when it ends: the calls of compiled functions, transformations and `backward`.
_RESTORING = tuple(f"{_TORCH / name}" for name in ("_dynamo", "_functorch", "_higher_order_ops", "_ops.py", "autograd"))
_ENTERING = threading.Lock()


class FlopCounter(TorchDispatchMode):  # type: ignore[misc]
    """Counter of the operations of matrix products, convolutions and attention, forward and backward.

    It is `torch.utils.flop_counter` without its table by module, and with the attention of all backends. An operation that a
    formula does not understand counts nothing.

    It is entered and left only where the thread's dispatch keys stay as they are then. Otherwise PyTorch would look for a mode that
    has gone, at each operation from then on. There is one in a process, since PyTorch keeps some flags of all threads' modes.

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
        self._thread = threading.get_ident()

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Return that functions are compiled as without the mode. PyTorch raises an error for one that must be compiled whole."""
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the operation and count it."""
        result = func(*args, **(kwargs or {}))
        formula = None if self.paused else self._formulas.get(func._overloadpacket)
        if formula is not None:
            with suppress_own(Exception):
                self.flops += formula(*args, **(kwargs or {}), out_val=result)
        return result

    def enter(self) -> bool:
        """Enter the mode; return whether that was possible: no other thread is counting."""
        if not _ENTERING.acquire(blocking=False):
            return False
        self.__enter__()
        return True

    def leave(self) -> bool:
        """Leave the mode; return whether that was possible. It is not below a mode that the script has entered since."""
        self.paused = True
        if threading.get_ident() != self._thread or _is_restored():
            return False
        modes = _get_current_dispatch_mode_stack()
        if not modes or modes[-1] is not self:
            return False
        self.__exit__(None, None, None)
        _ENTERING.release()
        if not _get_current_dispatch_mode_stack():
            with contextlib.suppress(AttributeError):  # PyTorch before 2.0
                torch._C._dispatch_tls_set_dispatch_key_included(torch._C.DispatchKey.Python, False)
        return True


def is_countable(model: torch.nn.Module) -> bool:
    """Return whether operations can be counted: nothing is compiled, and nothing else follows them as a counter does."""
    return not (is_compiled(model) or has_compiled() or _get_current_dispatch_mode_stack() or _is_restored())


def is_counting() -> bool:
    """Return whether a counter is entered in this thread."""
    return any(isinstance(mode, FlopCounter) for mode in _get_current_dispatch_mode_stack())


def _is_restored() -> bool:
    """Return whether a caller restores the thread's dispatch keys when it ends."""
    if torch.is_inference_mode_enabled():
        return True
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename.startswith(_RESTORING):
            return True
        frame = frame.f_back
    return False


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
