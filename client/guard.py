"""Guard around hooks: an error in a hook never reaches the training."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["Guard"]


class Guard:
    """Switch for the hooks of a watch. The first error switches all of them off and is reported once.

    Parameters
    ----------
    name
        Name of what is switched off, for the report.
    report
        Receives the error as text, beside standard error.
    release
        Called after the error, for what must not stay.
    wrap
        Returns what is called in place of a hook within the guard.
    """

    def __init__(
        self,
        name: str,
        report: Callable[[str], None],
        release: Callable[[], None] = lambda: None,
        wrap: Callable[[Callable[..., Any]], Callable[..., Any]] = lambda guarded: guarded,
    ) -> None:
        self.on = True
        self._name, self._report, self._release, self._wrap = name, report, release, wrap

    def __call__(self, hook: Callable[..., Any]) -> Callable[..., None]:
        """Return what calls `hook` while the guard is on. It returns ``None``, which changes nothing in a hook.

        It may stay in an object that is pickled or copied: there it does nothing.
        """
        return functools.update_wrapper(_Hook(self.function(hook)), hook)

    def function(self, hook: Callable[..., Any]) -> Callable[..., None]:
        """Return the same as a plain function, which is called faster, but must not stay in such an object."""

        def guarded(*args: Any, **kwargs: Any) -> None:
            if self.on:
                try:
                    hook(*args, **kwargs)
                except Exception as error:  # noqa: BLE001 - whatever it is, the training goes on
                    self.fail(error)

        return self._wrap(guarded)

    def result(self, hook: Callable[..., Any]) -> Callable[..., Any]:
        """Return what returns the result of `hook`, and ``None`` while the guard is off."""

        def guarded(*args: Any, **kwargs: Any) -> Any:
            if self.on:
                try:
                    return hook(*args, **kwargs)
                except Exception as error:  # noqa: BLE001 - as above
                    self.fail(error)
            return None

        return self._wrap(guarded)

    def fail(self, error: Exception) -> None:
        """Switch off because of an error."""
        self.on = False
        text = f"{self._name} is off: {type(error).__name__}: {error}"
        for act in (functools.partial(print, f"hypergauge: {text}", file=sys.stderr), self._release):
            with contextlib.suppress(Exception):  # not even the report may end a training
                act()
        with contextlib.suppress(Exception):
            self._report(text)


class _Hook(functools.partial):  # type: ignore[type-arg]
    """Hook within a guard. A pickled or copied model has a method of the standard library instead, which does nothing."""

    def __reduce__(self) -> Any:
        return getattr, (contextlib.nullcontext(), "__exit__")
