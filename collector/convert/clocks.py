"""Clock offset of a target, and steps of the collector's own clock."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, field

__all__ = ["CLOCK_METRIC", "Clock", "set_by"]

# node_exporter's: the host's time while it answers.
CLOCK_METRIC = "node_time_seconds"
# A clock that is surely off by more has its samples moved. Clocks that are kept by NTP are never, and other times would
# not be even.
_OFF_SECONDS = 1.0
_AGREED_SECONDS = 0.05  # half of the shortest interval
# What two clocks may drift apart, in seconds a second; ordinary quartz is within 50 ppm.
_DRIFT = 1e-4
# Reading two clocks takes less, and slewing, as NTP does it, moves both.
_SET_SECONDS = 0.1


def set_by(before: float | None, now: float | None) -> float:
    """Return the seconds by which a clock was set between two readings of `booted_at`; 0 where one is not known."""
    if before is None or now is None or abs(now - before) < _SET_SECONDS:
        return 0.0
    return now - before


@dataclass(slots=True)
class Clock:
    """Takes the clock's readings, and keeps the surest.

    A reading was made at some time between request and answer. So the clock is ahead by what it says less their middle,
    give or take half their distance: the formula of NTP, with one time of the other side's instead of two. A reading is
    replaced by a surer one, and by any once drift may have added as much doubt as that one has.

    Attributes
    ----------
    offset, uncertainty
        Seconds; ``None`` before the first reading.
    shift
        Whole seconds from the collector's time to the host's, which its runs go by; 0 where that is nearly the same.
    """

    offset: float | None = None
    uncertainty: float | None = None
    shift: int = 0
    _read: float = 0.0
    _last: tuple[float, float] = (math.nan, math.nan)
    _lead: float | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def read(self, says: float, asked: float, answered: float, lead: float | None = None) -> None:
        """Take a reading. All in Unix seconds; a clock that stepped backward in between gives none. In any thread.

        `lead` is the collector's `booted_at`. If its clock was set and this one was not, a single reading says so.
        """
        with self._lock:
            last, doubt = self._last
            self._last = last - set_by(self._lead, lead), doubt
            self._lead = lead
            self._take(says, asked, answered)

    def _take(self, says: float, asked: float, answered: float) -> None:
        doubt = (answered - asked) / 2
        if doubt < 0:
            return
        offset = says - (asked + answered) / 2
        self._keep(offset, doubt, answered)
        assert self.offset is not None
        assert self.uncertainty is not None
        # Two readings in a row have to agree: a body that is always the same shows a time that stands still.
        last, last_doubt = self._last
        self._last = offset, doubt
        agreed = abs(offset - last) <= doubt + last_doubt + _AGREED_SECONDS
        if agreed and abs(self.offset - self.shift) - self.uncertainty > _OFF_SECONDS:
            self.shift = round(self.offset)

    def _keep(self, offset: float, doubt: float, answered: float) -> None:
        """Keep a reading, unless the one that there is remains surer."""
        if self.offset is not None and self.uncertainty is not None:
            grown = self.uncertainty + _DRIFT * max(answered - self._read, 0.0)
            # Two readings that exclude each other: one of the clocks was set.
            if doubt > grown and abs(offset - self.offset) <= doubt + grown:
                return
        self.offset, self.uncertainty, self._read = offset, doubt, answered
