"""Clock offset of a target, and steps of the collector's own clock."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, field

__all__ = ["CLOCK_METRIC", "Clock", "set_by"]

# node_exporter's metric: the host's time at the response.
CLOCK_METRIC = "node_time_seconds"
# The collector shifts samples only when the offset exceeds this for certain. Clocks under NTP never reach it, and a
# shift would make their timestamps uneven.
_OFF_SECONDS = 1.0
_AGREED_SECONDS = 0.05  # half of the shortest interval
# Drift between two clocks, in seconds per second; ordinary quartz is within 50 ppm.
_DRIFT = 1e-4
# Reading two clocks takes less time. Slewing, as NTP does it, moves both clocks.
_SET_SECONDS = 0.1


def set_by(before: float | None, now: float | None) -> float:
    """Return the seconds by which a clock was set between two readings of `booted_at`; 0 if one is unknown."""
    if before is None or now is None or abs(now - before) < _SET_SECONDS:
        return 0.0
    return now - before


@dataclass(slots=True)
class Clock:
    """Offset of a target's clock, from the most certain reading.

    The target reads its clock between request and response. The offset is the reading less the middle of the two times,
    with half their distance as uncertainty. This is the formula of NTP, with one remote timestamp instead of two. A
    more certain reading replaces the current one. Any reading does so once drift may have added as much uncertainty as
    the reading has.

    Attributes
    ----------
    offset, uncertainty
        Seconds; ``None`` before the first reading.
    shift
        Whole seconds from the collector's time to the host's, which the host's runs use; 0 if the two are nearly equal.
    """

    offset: float | None = None
    uncertainty: float | None = None
    shift: int = 0
    _read: float = 0.0
    _last: tuple[float, float] = (math.nan, math.nan)
    _lead: float | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def read(self, shown: float, requested: float, answered: float, lead: float | None = None) -> None:
        """Take a reading.

        Times are Unix seconds; callable from any thread. A clock that stepped backward between request and response
        yields no reading.

        `lead` is the collector's `booted_at`. It shows from a single reading that only the collector's clock was set.
        """
        with self._lock:
            last, doubt = self._last
            self._last = last - set_by(self._lead, lead), doubt
            self._lead = lead
            self._take(shown, requested, answered)

    def _take(self, shown: float, requested: float, answered: float) -> None:
        doubt = (answered - requested) / 2
        if doubt < 0:
            return
        offset = shown - (requested + answered) / 2
        self._keep(offset, doubt, answered)
        assert self.offset is not None
        assert self.uncertainty is not None
        # Two consecutive readings must agree: a static response shows a time that never advances.
        last, last_doubt = self._last
        self._last = offset, doubt
        agreed = abs(offset - last) <= doubt + last_doubt + _AGREED_SECONDS
        if agreed and abs(self.offset - self.shift) - self.uncertainty > _OFF_SECONDS:
            self.shift = round(self.offset)

    def _keep(self, offset: float, doubt: float, answered: float) -> None:
        """Store a reading, unless the current one is still more certain."""
        if self.offset is not None and self.uncertainty is not None:
            grown = self.uncertainty + _DRIFT * max(answered - self._read, 0.0)
            # Two readings that exclude each other: one of the clocks was set.
            if doubt > grown and abs(offset - self.offset) <= doubt + grown:
                return
        self.offset, self.uncertainty, self._read = offset, doubt, answered
