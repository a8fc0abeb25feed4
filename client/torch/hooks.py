"""Hooks that PyTorch calls, but that no model, optimizer or listing has.

A hook in the dictionary of a module is pickled with it, compiled by `torch.jit.script`, and counted by PyTorch's fast paths.
A hook that is added or removed while PyTorch iterates the dictionary ends the training. So another dictionary takes its
place, which has further hooks for calls alone, and of which PyTorch iterates copies.
"""

from __future__ import annotations

from collections import OrderedDict, UserDict
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.optim import optimizer as optimizers

from hypergauge.client.torch.compiler import is_compiling

__all__ = ["after_forward", "after_step", "before_forward", "before_step"]

Remove = Callable[[], None]

_jit_tracing = torch._C._get_tracing_state
_functorch_level = getattr(torch._C._functorch, "peek_interpreter_stack", lambda: None)


def _is_transforming() -> bool:
    """Return whether a forward pass is compiled, traced, or run by `torch.func`: its tensors have no values of their own."""
    return is_compiling() or _jit_tracing() is not None or _functorch_level() is not None


class _ModuleHooks(OrderedDict):  # type: ignore[type-arg]
    """Hooks of a module in place of its own dictionary, with further ones that are no items of it.

    A call reads whether there are any, and `items`. Pickle, compilers and users read the rest.

    Attributes
    ----------
    original
        Dictionary in whose place this one is. Handles of its hooks still remove them from there.
    added
        The further hooks.
    """

    def __init__(self, original: Any) -> None:
        super().__init__(original)
        self.original = original
        self.added: dict[object, Any] = {}
        self._inherited = frozenset(original)

    def __bool__(self) -> bool:
        return bool(self.added) or len(self) > 0

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or key in self.added

    def items(self) -> Any:
        """Return all hooks, as a list, which no hook changes; without the further ones while a function is transformed."""
        return list(self._own()) if _is_transforming() else [*self._own(), *self.added.items()]

    def copy(self) -> Any:
        """Return a plain dictionary, as for pickle and `copy`."""
        return OrderedDict(self._own())

    def __copy__(self) -> Any:
        return self.copy()

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.copy().__reduce_ex__(protocol)

    def _own(self) -> Any:
        for key in self._inherited:
            if super().__contains__(key) and key not in self.original:
                del self[key]
        return super().items()


class _StepHooks(UserDict):  # type: ignore[type-arg]
    """Hooks of all optimizers: a view of PyTorch's dictionary, with further ones that only `values` has, as a step reads it."""

    def __init__(self, original: Any) -> None:
        super().__init__()
        self.original = self.data = original
        self.added: dict[object, Any] = {}

    def values(self) -> Any:
        """Return all hooks, as a list, which no hook changes."""
        return [*self.data.values(), *self.added.values()]


def before_forward(module: nn.Module, hook: Callable[..., None]) -> Remove:
    """Call `hook` with the module, positional and named arguments before each forward pass; return what ends that."""
    key = object()
    removals = [
        _add(vars(module), name, _ModuleHooks, key, hook)
        for name in ("_forward_pre_hooks_with_kwargs", "_forward_pre_hooks")
    ]
    return lambda: [remove() for remove in removals].clear()


def after_forward(module: nn.Module, hook: Callable[..., None]) -> Remove:
    """Call `hook` with the module, positional arguments and output after each forward pass; return what ends that."""
    return _add(vars(module), "_forward_hooks", _ModuleHooks, object(), hook)


def before_step(hook: Callable[..., Any]) -> Remove:
    """Call `hook` with optimizer, positional and named arguments before each step of any optimizer; return what ends that.

    It may return other arguments.
    """
    return _add(vars(optimizers), "_global_optimizer_pre_hooks", _StepHooks, object(), hook)


def after_step(hook: Callable[..., None]) -> Remove:
    """Call `hook` with optimizer, positional and named arguments after each step of any optimizer; return what ends that."""
    return _add(vars(optimizers), "_global_optimizer_post_hooks", _StepHooks, object(), hook)


def _add(owner: dict[str, Any], name: str, kind: type[_ModuleHooks | _StepHooks], key: object, hook: Any) -> Remove:
    hooks = owner[name]
    if not isinstance(hooks, kind):
        hooks = owner[name] = kind(hooks)
    hooks.added[key] = hook

    def remove() -> None:
        hooks.added.pop(key, None)
        # Hooks that others have added meanwhile are removed from this dictionary, so that it stays with them.
        if not hooks.added and not hooks and owner.get(name) is hooks:
            owner[name] = hooks.original

    return remove
