"""Functions of PyTorch that have no hooks, with a call before or around them.

They are replaced when the first watch needs them, in a run alone, and come back when the last one ends.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any

__all__ = ["Patch"]

# Returns what surrounds one call of the function, given its arguments.
Around = Callable[..., AbstractContextManager[Any]]


class Patch:
    """Function of a module or class that is replaced while something listens."""

    def __init__(self, owner: Any, name: str) -> None:
        self._owner, self._name = owner, name
        self._original: Callable[..., Any] | None = None
        self._listeners: list[Around] = []

    def add(self, around: Around) -> None:
        """Enter what `around` returns for the arguments before each call, and exit it afterwards. It must not raise."""
        self._listeners.append(around)
        if self._original is not None:
            return
        original = self._original = getattr(self._owner, self._name)

        @functools.wraps(original)
        def replacement(*args: Any, **kwargs: Any) -> Any:
            with ExitStack() as stack:
                for listener in self._listeners:
                    stack.enter_context(listener(*args, **kwargs))
                return original(*args, **kwargs)

        setattr(self._owner, self._name, replacement)

    def remove(self, around: Around) -> None:
        """Undo `add`."""
        self._listeners.remove(around)
        if not self._listeners and self._original is not None:
            setattr(self._owner, self._name, self._original)
            self._original = None
