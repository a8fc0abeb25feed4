"""Guard around hooks: an error in a hook never reaches the training."""

from __future__ import annotations

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
    """

    def __init__(self, name: str, report: Callable[[str], None]) -> None:
        self.on = True
        self._name, self._report = name, report

    def __call__(self, hook: Callable[..., Any]) -> Callable[..., None]:
        """Return a function that calls `hook` while the guard is on. It returns ``None``, which changes nothing in a hook."""

        @functools.wraps(hook)
        def guarded(*args: Any, **kwargs: Any) -> None:
            if self.on:
                try:
                    hook(*args, **kwargs)
                except Exception as error:  # noqa: BLE001 - whatever it is, the training goes on
                    self.fail(error)

        return guarded

    def fail(self, error: Exception) -> None:
        """Switch off because of an error."""
        self.on = False
        text = f"{self._name} is off: {type(error).__name__}: {error}"
        try:
            print(f"hypergauge: {text}", file=sys.stderr)
            self._report(text)
        except Exception:  # noqa: BLE001, S110 - not even the report may end a training
            pass
