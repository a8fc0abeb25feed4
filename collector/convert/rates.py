"""Conversion of values to samples: a gauge as read, a counter as its rate since the last scrape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hypergauge.collector.convert.exposition import Scrape
from hypergauge.collector.convert.throttle_masks import ThrottleMasks

__all__ = ["LastLine", "Rates", "Samples"]

# A line whose timestamp is further ahead is dropped; it would block its series until then. Prometheus's limit.
MAX_AHEAD = 600.0
# Single precision has 24 binary digits: a number below this keeps its integer part when it is rounded.
_WHOLE = 2.0**24
_SMALLEST, _LARGEST = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Samples of one scrape, in arrays of shape ``(n,)``.

    Attributes
    ----------
    times
        Unix seconds; the end of the interval that a sample covers.
    refs
        The series, as in the scrape.
    values
        A gauge's value or a counter's rate per second, in single precision, see `Rates`. NaN stands for SQL's null: the
        source had a value and has none now. Never infinite.
    dts
        Seconds that each sample covers.
    dropped
        Lines omitted because their time is not newer than their series' last, or is too far ahead. A repetition of the
        last line, with its time and value, is no loss, as in Prometheus.
    """

    times: npt.NDArray[np.float64]
    refs: npt.NDArray[np.uint32]
    values: npt.NDArray[np.float64]
    dts: npt.NDArray[np.float32]
    dropped: int


class LastLine(NamedTuple):
    """Time (Unix seconds) and value of a series' last line, and the rounding residual of its rates."""

    time: float
    value: float
    residual: float


class Rates:
    """Conversion of one target's scrapes; holds time and value of each series' last line.

    * A gauge's sample covers the interval, or the time since its last line if that is shorter.
    * A counter's sample covers the time since the previous scrape, however long; the sum of value x dt is its increase.
      Its first scrape, and the first after a reset, give no sample.
    * Values are rounded to single precision, one part in 16 million. A double's further digits are mostly the noise of
      a subtraction or of a decimal fraction, and cost three bytes a sample on disk. A gauge of 2^24 and more (bytes,
      Unix times) stays as read. The rounding residual of a counter's rate is added to its next sample. The sum of value
      x dt therefore differs from the increase by one rounding at most, however many samples there are.
    * A bit mask of clock reasons becomes a flag, see `ThrottleMasks`.
    * NaN and infinities are missing values. A gauge's loss of its value is one sample of NaN. A counter's line is
      skipped, and its next one covers the gap.

    Parameters
    ----------
    interval
        Seconds between two scheduled scrapes.
    since
        Unix seconds; lines with an older timestamp are dropped, since another collector has written them.

    Attributes
    ----------
    interval, since
        Their current values.
    """

    def __init__(self, interval: float, since: float = -np.inf) -> None:
        self.interval, self.since = interval, since
        self._times = np.zeros(0)
        self._values = np.zeros(0)
        self._residual = np.zeros(0)  # by ref: rounding residual of a counter's rates
        self._counters = np.zeros(0, np.bool_)
        self._masks = ThrottleMasks()

    def samples(
        self,
        scrape: Scrape,
        time: float,
        created: Mapping[int, float] | None = None,
        resumed: Mapping[int, LastLine] | None = None,
    ) -> Samples:
        """Return the samples that `scrape` adds.

        Parameters
        ----------
        time
            The scrape's own time, Unix seconds. A line's own timestamp takes precedence.
        created
            Created timestamps of counters in ``scrape.new``, by ref, in Unix seconds, as OpenMetrics' ``_created``. The
            first scrape then yields a sample over the time since. Not for series that already have samples: their
            increase would count twice.
        resumed
            Last lines of series in ``scrape.new``, by ref, from an earlier process of the collector. They take
            precedence over `created`.
        """
        self._begin(scrape, created or {}, resumed or {})
        refs, times = scrape.refs, _times(scrape, time)
        numbers = self._masks.flags(refs, scrape.values)
        since, counters = self._times[refs], self._counters[refs]
        kept = ~(times <= since) & (times >= self.since) & (times <= time + MAX_AHEAD)
        dropped = 0
        if not kept.all():
            last = self._values[refs]
            repeated = (times == since) & ((numbers == last) | np.isnan(numbers) & np.isnan(last))
            dropped = int(np.count_nonzero(~kept & ~repeated))
        # A counter without a value changes nothing: the next value is compared with the last one.
        kept &= np.isfinite(numbers) | ~counters
        if not kept.all():
            refs, numbers, times, since, counters = refs[kept], numbers[kept], times[kept], since[kept], counters[kept]
        elapsed, before = times - since, self._values[refs]  # NaN for a first line
        values, dts = self._gauges(numbers, before, elapsed)
        if len(at := np.flatnonzero(counters)):
            values[at], dts[at] = self._rates(refs[at], numbers[at] - before[at], elapsed[at])
        self._times[refs], self._values[refs] = times, numbers
        given = ~np.isnan(dts)
        if not given.all():
            times, refs, values, dts = times[given], refs[given], values[given], dts[given]
        return Samples(times, refs, values, dts.astype(np.float32), dropped)

    def move(self, seconds: float) -> None:
        """Follow a collector clock that was set by `seconds`."""
        self.since += seconds
        self._times += seconds

    @property
    def last_lines(self) -> npt.NDArray[np.float64]:
        """Last lines by ref, see `LastLine`; shape ``(n, 3)``, with NaN for series without a line."""
        return np.stack([self._times, self._values, self._residual], axis=1)

    def _begin(self, scrape: Scrape, created: Mapping[int, float], resumed: Mapping[int, LastLine]) -> None:
        if not scrape.new:
            return
        if (size := max(scrape.new) + 1) > len(self._times):
            more = max(size - len(self._times), len(self._times), 64)  # doubles: linear time in total
            self._times = np.concatenate([self._times, np.full(more, np.nan)])
            self._values = np.concatenate([self._values, np.full(more, np.nan)])
            self._residual = np.concatenate([self._residual, np.zeros(more)])
            self._counters = np.concatenate([self._counters, np.zeros(more, np.bool_)])
        self._masks.register(scrape.new)
        for ref, series in scrape.new.items():
            counter = series.kind == "counter"
            created_at = created.get(ref) if counter else None
            self._counters[ref], self._residual[ref] = counter, 0.0
            if (line := resumed.get(ref)) is not None:
                self._times[ref], self._values[ref], self._residual[ref] = line
            else:
                self._times[ref], self._values[ref] = (np.nan, np.nan) if created_at is None else (created_at, 0.0)

    def _gauges(
        self, numbers: npt.NDArray[np.float64], before: npt.NDArray[np.float64], elapsed: npt.NDArray[np.float64]
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return values and dts; a NaN dt means no sample."""
        values, dts = _single(numbers, _WHOLE), np.fmin(elapsed, self.interval)
        if not (finite := np.isfinite(numbers)).all():
            values[~finite] = np.nan
            dts[~finite & ~np.isfinite(before)] = np.nan
        return values, dts

    def _rates(
        self, refs: npt.NDArray[np.uint32], increases: npt.NDArray[np.float64], elapsed: npt.NDArray[np.float64]
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return values and dts; a NaN dt means no sample."""
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            # The rate uses dt as stored, in single precision, so that the product of both is exactly the increase.
            dts = elapsed.astype(np.float32).astype(np.float64)
            due = increases + self._residual[refs]
            rates = np.fmax(_single(due / dts, _LARGEST), 0.0)
            rates[increases == 0] = 0.0  # no residual: an idle counter must not show a trickle
            given = np.isfinite(rates) & (increases >= 0) & (dts > 0)
            self._residual[refs[given]] = (due - rates * dts)[given]
            dts[~given] = np.nan
        return rates, dts


def _times(scrape: Scrape, time: float) -> npt.NDArray[np.float64]:
    own = ~np.isnan(scrape.timestamps)
    times = np.full(len(own), time, np.float64)
    if own.any():
        times[own] = scrape.timestamps[own]
    return times


def _single(values: npt.NDArray[np.float64], limit: float) -> npt.NDArray[np.float64]:
    """Round values below `limit` and within its range to single precision; keep the others."""
    sizes = np.abs(values)
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = values.astype(np.float32).astype(np.float64)
    kept = (sizes >= limit) | (sizes < _SMALLEST)
    rounded[kept] = values[kept]
    return rounded
