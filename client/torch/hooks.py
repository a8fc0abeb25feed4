"""Hooks that PyTorch calls, but that no model, optimizer or listing has.

A hook in the dictionary of a module is pickled with it, compiled by `torch.jit.script`, and counted by PyTorch's fast paths.
A hook that is added or removed while PyTorch iterates the dictionary ends the training. So a view of the dictionary takes its
place. It has further hooks for the calls of PyTorch alone, and whatever the script does to it happens to the dictionary.
"""

from __future__ import annotations

import copy
import inspect
import sys
import types
import weakref
from collections import OrderedDict, UserDict
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as modules
from torch.optim import optimizer as optimizers

from hypergauge.client.torch.compiler import is_compiling, skip

__all__ = ["after_forward", "after_step", "before_forward", "before_step"]

Remove = Callable[[], None]

_jit_tracing = torch._C._get_tracing_state
_functorch_level = getattr(torch._C._functorch, "peek_interpreter_stack", lambda: None)

# Code that calls a module with its hooks, and the function within it.
_CALL = getattr(inspect.unwrap(nn.Module._call_impl), "__code__", None)
_CALLS = frozenset([_CALL, *(one for one in getattr(_CALL, "co_consts", ()) if isinstance(one, types.CodeType))])
_BEFORE, _AFTER = "_forward_pre_hooks", "_forward_hooks"
_BACKWARD = ("_backward_hooks", "_backward_pre_hooks")
# Hooks of all modules.
_GLOBAL = tuple(
    f"_global_{name}" for name in ("backward_pre_hooks", "backward_hooks", "forward_hooks", "forward_pre_hooks")
)


def _is_transforming() -> bool:
    """Return whether a forward pass is compiled, traced, or run by `torch.func`: its tensors have no values of their own."""
    return is_compiling() or _jit_tracing() is not None or _functorch_level() is not None


class _ModuleHooks(UserDict, OrderedDict):  # type: ignore[type-arg,misc]
    """View of a dictionary of a module's hooks, with further ones that only a call of the module has.

    Compilers read the storage of a dictionary directly. So the view has the same items in its own, too.

    Attributes
    ----------
    data
        Dictionary in whose place this one is. Handles of its hooks still remove them from there.
    added
        The further hooks.
    module
        Reference to the module.
    unhooked
        Calls in progress that have hooks because of the further ones alone, by their frames.
    """

    def __init__(self, module: nn.Module, name: str) -> None:
        OrderedDict.__init__(self)
        self.data: Any = vars(module)[name]
        self.added: dict[object, Any] = {}
        self.module, self._name = weakref.ref(module), name
        self.unhooked: set[int] = set()
        self._mirror()

    def __bool__(self) -> bool:
        return bool(self.data) or (bool(self.added) and sys._getframe(1).f_code in _CALLS)

    def __len__(self) -> int:
        self._mirror()
        return len(self.data)

    def __contains__(self, key: object) -> bool:
        return key in self.data or key in self.added

    def __reversed__(self) -> Any:
        return reversed(self.data)

    def __setitem__(self, key: Any, hook: Any) -> None:
        self.data[key] = hook
        OrderedDict.__setitem__(self, key, hook)

    def __delitem__(self, key: Any) -> None:
        del self.data[key]
        self._mirror()

    def __or__(self, other: Any) -> Any:
        return self.data | other

    def __ror__(self, other: Any) -> Any:
        return other | self.data

    def __eq__(self, other: object) -> bool:
        return bool(self.data == (other.data if isinstance(other, _ModuleHooks) else other))

    __hash__ = None  # type: ignore[assignment]

    def keys(self) -> Any:
        """Return the keys."""
        return self.data.keys()

    def values(self) -> Any:
        """Return the hooks."""
        return self.data.values()

    def items(self) -> Any:
        """Return keys and hooks. A call of the module gets the further ones as well, unless a function is transformed."""
        frame: Any = sys._getframe(1)
        if frame.f_code not in _CALLS:
            self._mirror()
            return self.data.items()
        return self._called(id(frame if frame.f_code is _CALL else frame.f_back))

    def popitem(self, last: bool = True) -> Any:
        """Remove the last or the first item and return it."""
        item = self.data.popitem(last)
        self._mirror()
        return item

    def clear(self) -> None:
        """Remove all items."""
        self.data.clear()
        self._mirror()

    def move_to_end(self, key: Any, last: bool = True) -> None:
        """Move an item to the end or to the begin."""
        self.data.move_to_end(key, last)
        self._mirror()

    def copy(self) -> Any:
        """Return a plain dictionary, as for pickle and `copy`."""
        return self.data.copy()

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Any:
        return copy.deepcopy(self.data, memo)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.copy().__reduce_ex__(protocol)

    def _called(self, call: int) -> list[Any]:
        """Return the hooks of a call of the module: a list, which no hook changes.

        A hook that the model adds to itself within `forward` is not called where PyTorch calls a module without looking for hooks.
        """
        if self._name == _BEFORE:
            is_unhooked = self._is_unhooked(call)
        else:
            is_unhooked = call in self.unhooked
            self.unhooked.discard(call)
        own = [] if is_unhooked else list(self.data.items())
        return own if _is_transforming() else [*own, *self.added.items()]

    def _is_unhooked(self, call: int) -> bool:
        """Return whether the module has no hooks but the further ones, when a call begins, and keep that until its end."""
        module = self.module()
        own = {} if module is None else vars(module)
        after = own.get(_AFTER)
        if not isinstance(after, _ModuleHooks):
            return False
        others = (*map(own.get, _BACKWARD), *map(vars(modules).get, _GLOBAL))
        is_hooked = bool(self.data or after.data or any(others))
        (after.unhooked.discard if is_hooked else after.unhooked.add)(call)
        return not is_hooked

    def _mirror(self) -> None:
        """Take over what happened to the dictionary itself."""
        mine, data = OrderedDict.values(self), self.data
        if not mine and not data:
            return
        if [*map(id, mine)] == [*map(id, data.values())] and [*OrderedDict.keys(self)] == [*data]:
            return
        OrderedDict.clear(self)
        for key, hook in data.items():
            OrderedDict.__setitem__(self, key, hook)


# A compiler that calls a module as it is must not compile them.
for _function in (_is_transforming, *vars(_ModuleHooks).values()):
    if isinstance(_function, types.FunctionType):
        skip(_function)


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
    return _add_to_module(module, (f"{_BEFORE}_with_kwargs", _BEFORE), hook)


def after_forward(module: nn.Module, hook: Callable[..., None]) -> Remove:
    """Call `hook` with the module, positional arguments and output after each forward pass; return what ends that."""
    return _add_to_module(module, (_AFTER,), hook)


def before_step(hook: Callable[..., Any]) -> Remove:
    """Call `hook` with optimizer, positional and named arguments before each step of any optimizer; return what ends that.

    It may return other arguments.
    """
    return _add_to_steps("_global_optimizer_pre_hooks", hook)


def after_step(hook: Callable[..., None]) -> Remove:
    """Call `hook` with optimizer, positional and named arguments after each step of any optimizer; return what ends that."""
    return _add_to_steps("_global_optimizer_post_hooks", hook)


def _add_to_module(module: nn.Module, names: tuple[str, ...], hook: Any) -> Remove:
    """Add a hook to dictionaries of a module. The views know of a call when it looks for hooks before and after it."""
    owner, key = vars(module), object()
    kept = {name: _view(module, name) for name in (f"{_BEFORE}_with_kwargs", _BEFORE, _AFTER)}
    for name in names:
        kept[name].added[key] = hook
    # Calls ask for the hooks before them only if there are some.
    if names == (_AFTER,):
        kept[_BEFORE].added[key] = _nothing

    def remove() -> None:
        for view in kept.values():
            view.added.pop(key, None)
        if any(view.added for view in kept.values()):
            return
        for name, view in kept.items():
            view.unhooked.clear()
            # Handles of hooks that others have added meanwhile know the view alone.
            if owner.get(name) is view and not (view.data and weakref.getweakrefcount(view)):
                owner[name] = view.data

    return remove


def _view(module: nn.Module, name: str) -> _ModuleHooks:
    hooks = vars(module)[name]
    if not isinstance(hooks, _ModuleHooks):
        hooks = vars(module)[name] = _ModuleHooks(module, name)
    return hooks


def _nothing(*_: object) -> None:
    """Do nothing."""


def _add_to_steps(name: str, hook: Any) -> Remove:
    owner, key = vars(optimizers), object()
    hooks = owner[name]
    if not isinstance(hooks, _StepHooks):
        hooks = owner[name] = _StepHooks(hooks)
    hooks.added[key] = hook

    def remove() -> None:
        hooks.added.pop(key, None)
        # Hooks that others have added meanwhile are removed from this dictionary, so that it stays with them.
        if not hooks.added and not hooks and owner.get(name) is hooks:
            owner[name] = hooks.original

    return remove
