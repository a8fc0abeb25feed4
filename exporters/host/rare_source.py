"""Source that most hosts lack, such as a network file system."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from hypergauge.exporters.serving.families import Measurement

__all__ = ["RareSource"]

# A mount is found this late at most. A host without one pays for a stat this often.
_REST_SECONDS = 10.0


class RareSource:
    """Measurements of a source, which rests for a while after a read that found none.

    Parameters
    ----------
    presence
        Path that exists on hosts with the source.
    measure
        Function that reads the source.
    clock
        Clock in seconds.
    """

    def __init__(
        self,
        presence: Path,
        measure: Callable[[], Iterable[Measurement]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._presence, self._measure, self._clock = presence, measure, clock
        self._rests_until = float("-inf")

    def read(self) -> Sequence[Measurement]:
        """Return the measurements; none while the source rests."""
        if self._clock() < self._rests_until:
            return ()
        found = list(self._measure()) if self._presence.exists() else []
        if not found:
            self._rests_until = self._clock() + _REST_SECONDS
        return found
