"""Hooks that `torch.compile` neither compiles nor follows."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

from hypergauge.client.guard import suppress_own

__all__ = ["has_compiled", "is_compiling", "skip", "uncompiled"]

is_compiling: Callable[[], bool] = getattr(getattr(torch, "compiler", None), "is_compiling", lambda: False)
_frames: Any = getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None)
_set_compiler: Callable[[Any], Any] = getattr(_frames, "set_eval_frame", lambda _: None)


def uncompiled(hook: Callable[..., Any]) -> Callable[..., Any]:
    """Return what calls `hook` without a compiler: not while code is compiled, and never as code to compile.

    Behind a graph break, the compiler of the script would otherwise compile the hook, function by function. It is switched off as
    `torch.compiler.disable` does, but without a graph break of its own, which ends a script that allows none.
    """

    def called(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return None
        compiler = _set_compiler(None)
        try:
            return hook(*args, **kwargs)
        finally:
            _set_compiler(compiler)

    return called


def has_compiled() -> bool:
    """Return whether the process has anything compiled, be it only a function of its own."""
    backends = getattr(sys.modules.get("torch._dynamo.eval_frame"), "cached_backends", {})
    return any(backend is not None for backend in list(backends.values()))


def skip(function: Any) -> None:
    """Leave the frames of a function to the interpreter, where it is called and not inlined."""
    with suppress_own(Exception):  # the names differ between versions
        if hasattr(_frames, "skip_code"):
            _frames.skip_code(function.__code__)
        else:
            skip, default = _frames._FrameAction.SKIP, _frames._FrameAction.DEFAULT
            _frames.set_code_exec_strategy(function.__code__, _frames._FrameExecStrategy(skip, default))


# All hooks that it returns share one code.
skip(uncompiled(skip))
