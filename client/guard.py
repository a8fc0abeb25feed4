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
        """Return what calls `hook` while the guard is on. It returns ``None``, which changes nothing in a hook.

        It may stay in an object that is pickled or copied: there it does nothing.
        """
        return functools.update_wrapper(_Hook(self.function(hook)), hook)

    def function(self, hook: Callable[..., Any]) -> Callable[..., None]:
        """Return the same as a plain function, which is called faster, but must not stay in such an object."""
        # A training calls this in each step: whatever it looks up has left the cache since the last one.
        is_skipped = self.is_skipped

        def guarded(*args: Any, **kwargs: Any) -> None:
            if self.on and not is_skipped():
                try:
                    hook(*args, **kwargs)
                except Exception as error:  # noqa: BLE001 - whatever it is, the training goes on
                    self.fail(error)

        return guarded

    def result(self, hook: Callable[..., Any]) -> Callable[..., Any]:
        """Return what returns the result of `hook`, and ``None`` while the guard is off."""
        is_skipped = self.is_skipped

        def guarded(*args: Any, **kwargs: Any) -> Any:
            if self.on and not is_skipped():
                try:
                    return hook(*args, **kwargs)
                except Exception as error:  # noqa: BLE001 - as above
                    self.fail(error)
            return None

        return guarded

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
