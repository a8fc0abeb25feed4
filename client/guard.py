"""Guard around hooks: an error in a hook never reaches the training.

The errors of the script's signal handlers do: Python calls a handler between any two instructions, also those of a hook.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any

__all__ = ["Guard", "is_of_handler", "suppress_own"]


def is_of_handler(error: BaseException | None) -> bool:
    """Return whether an error comes out of a signal handler: a function that got the frame of its caller as an argument."""
    import inspect  # here, since each script imports this module

    trace = error.__traceback__ if error is not None else None
    while trace is not None and trace.tb_next is not None:
        interrupted, trace = trace.tb_frame, trace.tb_next
        names, others, _, values = inspect.getargvalues(trace.tb_frame)
        arguments = [*(values.get(name) for name in names), *(values.get(others, ()) if others else ())]
        if any(argument is interrupted for argument in arguments):
            return True
    return False


class suppress_own(contextlib.suppress):  # noqa: N801 - named as its base class
    """`contextlib.suppress`, but for errors of the script's signal handlers."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return not is_of_handler(error) and bool(super().__exit__(kind, error, trace))


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
        """Switch off because of an error, unless it is that of a signal handler, which goes on to the script."""
        if is_of_handler(error):
            raise error
        self.on = False
        text = f"{self._name} is off: {type(error).__name__}: {error}"
        # Each is called whatever another one raises: not even the report may end a training.
        with contextlib.ExitStack() as acts:
            for act in (
                functools.partial(self._report, text),
                self._release,
                functools.partial(print, f"hypergauge: {text}", file=sys.stderr),
            ):
                acts.callback(_attempt, act)


def _attempt(act: Callable[[], None]) -> None:
    with suppress_own(Exception):
        act()


class _Hook(functools.partial):  # type: ignore[type-arg]
    """Hook within a guard. A pickled or copied model has a method of the standard library instead, which does nothing."""

    def __reduce__(self) -> Any:
        return getattr, (contextlib.nullcontext(), "__exit__")
