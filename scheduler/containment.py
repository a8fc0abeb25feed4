"""Containment of errors in the files that a run wrote: a message at its end, and never the end of a schedule."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from hypergauge.core.errors import BenchError
from hypergauge.sql.server.session import is_passing

__all__ = ["contained", "reason"]


@contextlib.contextmanager
def contained(what: str, notify: Callable[[str], None]) -> Iterator[None]:
    """Report an error of the block as ``WHAT: REASON`` instead of raising it.

    Any error, since a run may write anything, and a report is read again by each schedule until it is delivered. Errors that
    have another cause pass: an outage of the database, and all of ours, such as that of MLflow.
    """
    try:
        yield
    except BenchError:
        raise
    except Exception as error:
        if is_passing(error):
            raise
        notify(f"{what}: {reason(error)}")


def reason(error: Exception) -> str:
    """Return an error in one line, with its type where its text alone says little."""
    text = next(iter(str(error).strip().splitlines()), "")
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
