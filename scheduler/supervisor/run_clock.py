"""Clock of a run, unaffected by changes of the host's clock."""

from __future__ import annotations

import time

__all__ = ["RunClock"]


class RunClock:
    """Clock of a run: Unix time of its release, plus the monotonic time since.

    Parameters
    ----------
    started_at
        Release of the run in Unix seconds, shortly before the call.
    """

    def __init__(self, started_at: float) -> None:
        self._offset = started_at - (time.monotonic() - max(time.time() - started_at, 0.0))

    def now(self) -> float:
        """Return the time in Unix seconds."""
        return self.at(time.monotonic())

    def at(self, monotonic: float) -> float:
        """Convert a value of `time.monotonic`, from any process of this host, to Unix seconds."""
        return self._offset + monotonic
