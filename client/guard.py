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
    is_skipped
        Tells when hooks do nothing: while a model is being compiled.
    """

    def __init__(
        self,
        name: str,
        report: Callable[[str], None],
        release: Callable[[], None] = lambda: None,
        is_skipped: Callable[[], bool] = lambda: False,
    ) -> None:
        self.on = True
        self.is_skipped = is_skipped
        self._name, self._report, self._release = name, report, release

    def __call__(self, hook: Callable[..., Any]) -> Callable[..., None]:
        """Return a function that calls `hook` while the guard is on. It returns ``None``, which changes nothing in a hook."""
        return _Guarded(self, hook)

    def fail(self, error: Exception) -> None:
        """Switch off because of an error."""
        self.on = False
        text = f"{self._name} is off: {type(error).__name__}: {error}"
        for act in (functools.partial(print, f"hypergauge: {text}", file=sys.stderr), self._release):
            with contextlib.suppress(Exception):  # not even the report may end a training
                act()
        with contextlib.suppress(Exception):
            self._report(text)


class _Guarded:
    """Hook within a guard. A pickled or copied model has a method of the standard library instead, which does nothing."""

    def __init__(self, guard: Guard, hook: Callable[..., Any]) -> None:
        self._guard, self._hook = guard, hook
        functools.update_wrapper(self, hook)

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        guard = self._guard
        if guard.is_skipped() or not guard.on:
            return
        try:
            self._hook(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - whatever it is, the training goes on
            guard.fail(error)

    def __reduce__(self) -> Any:
        return getattr, (contextlib.nullcontext(), "__exit__")
