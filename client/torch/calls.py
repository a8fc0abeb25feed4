"""Models that are called in another form, and optimizers, found among the objects of the interpreter."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

from torch import nn

from hypergauge.client.torch.hooks import before_forward

__all__ = ["compiled_form", "has_optimizer"]


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
    for candidate in gc.get_objects():
        # By type, because `__class__` of some objects has side effects.
        if type(candidate).__name__ == "OptimizedModule" and candidate._modules.get("_orig_mod") is model:
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
