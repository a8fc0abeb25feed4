"""Clock of a run. No change of the host's clock affects it."""

from __future__ import annotations

import time

__all__ = ["RunClock"]


class RunClock:
    """The time of day as it was when a run began, and what has passed since.

    Parameters
    ----------
    started_at
        When the run was released, in Unix seconds: a moment ago.
    """

    def __init__(self, started_at: float) -> None:
        self._offset = started_at - (time.monotonic() - max(time.time() - started_at, 0.0))

    def now(self) -> float:
        """Return the time in Unix seconds."""
        return self.at(time.monotonic())

    def at(self, monotonic: float) -> float:
        """Return the Unix seconds of a moment that any process of this host has read from `time.monotonic`."""
        return self._offset + monotonic
