"""Functions of PyTorch that have no hooks, with something before or around them.

They are replaced when the first watch needs them, in a run alone, and come back when the last one ends.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

__all__ = ["Patch", "Wrap"]

# Returns a function that calls the given one.
Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


class Patch:
    """Function of a module or class that is replaced while something wraps it."""

    def __init__(self, owner: Any, name: str) -> None:
        self._owner, self._name = owner, name
        self._original: Callable[..., Any] | None = None
        self._replacement: Callable[..., Any] | None = None
        self._called: Callable[..., Any] | None = None
        self._wraps: list[Wrap] = []

    def add(self, wrap: Wrap) -> None:
        """Call what `wrap` returns instead of the function. Of itself it must not raise."""
        if self._replacement is None:
            self._original = original = getattr(self._owner, self._name)

            @functools.wraps(original)
            def replacement(*args: Any, **kwargs: Any) -> Any:
                return self._called(*args, **kwargs)  # type: ignore[misc]

            self._replacement = replacement
        self._wraps.append(wrap)
        self._compose()
        if len(self._wraps) == 1 and getattr(self._owner, self._name) is self._original:
            setattr(self._owner, self._name, self._replacement)

    def remove(self, wrap: Wrap) -> None:
        """Undo `add`."""
        self._wraps.remove(wrap)
        self._compose()
        # A replacement of the script's own that calls this one stays.
        if not self._wraps and getattr(self._owner, self._name) is self._replacement:
            setattr(self._owner, self._name, self._original)
            self._replacement = None

    def _compose(self) -> None:
        assert self._original is not None
        function = self._original
        for wrap in self._wraps:
            function = wrap(function)
        self._called = function
