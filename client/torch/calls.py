"""Models that are called in another form, optimizers among the objects of the interpreter, and closures."""

from __future__ import annotations

import functools
import gc
import sys
import types
from collections.abc import Callable
from typing import Any

from torch import nn

from hypergauge.client.torch.hooks import before_forward

__all__ = ["compiled_form", "followed", "has_optimizer"]


def compiled_form(model: nn.Module, hook: Callable[..., None]) -> Callable[[], None] | None:
    """Call `hook` before each call of the compiled form of a model; return what ends that, or ``None`` without such a form."""
    compiled = vars(model).get("_compiled_call_impl")
    if compiled is not None:

        def call(*args: Any, **kwargs: Any) -> Any:
            hook(model, args, kwargs)
            return compiled(*args, **kwargs)

        # PyTorch leaves this attribute out of pickled and copied models.
        vars(model)["_compiled_call_impl"] = call
        return lambda: vars(model).update(_compiled_call_impl=compiled)
    # PyTorch imports this module when it first compiles something.
    optimized = getattr(sys.modules.get("torch._dynamo.eval_frame"), "OptimizedModule", None)
    # Not `gc.get_objects`: while a list has a tuple that another thread still fills, that thread fails.
    for candidate in gc.get_referrers(optimized) if optimized is not None else ():
        # By type, because `__class__` of some objects has side effects.
        if type(candidate) is optimized and candidate._modules.get("_orig_mod") is model:
            return before_forward(candidate, lambda _, args, kwargs: hook(model, args, kwargs))
    return None


def has_optimizer(model: nn.Module) -> bool:
    """Return whether an optimizer has a parameter of the model: a dictionary with a list of it as ``params``."""
    parameter = next((parameter for parameter in model.parameters() if parameter.requires_grad), None)
    for holder in gc.get_referrers(parameter):
        if type(holder) is list:
            groups = gc.get_referrers(holder)
            if any(type(group) is dict and group.get("params") is holder for group in groups):
                return True
    return parameter is None


def followed(function: Callable[..., Any], called: Callable[[], None]) -> Callable[..., Any] | None:
    """Return what is like a function, method or partial, but calls another function afterwards; ``None`` for any other object.

    Both have the same attributes, be they set later.
    """
    if type(function) is types.MethodType:
        inner = followed(function.__func__, called)
        return None if inner is None else types.MethodType(inner, function.__self__)
    if type(function) is functools.partial:
        inner = followed(function.func, called)
        if inner is None:
            return None
        partial = functools.partial(inner, *function.args, **function.keywords)
        partial.__dict__ = vars(function)
        return partial
    if type(function) is not types.FunctionType:
        return None

    def replacement(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        called()
        return result

    for name in ("__module__", "__name__", "__qualname__", "__doc__", "__dict__"):
        setattr(replacement, name, getattr(function, name))
    return replacement
