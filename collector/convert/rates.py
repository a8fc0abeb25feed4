"""Conversion of values to samples: a gauge as read, a counter as its rate since the last scrape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hypergauge.collector.convert.exposition import Scrape

__all__ = ["Rates", "Samples"]

# A line whose own clock is further ahead is dropped, or it would silence its series until then. Prometheus's figure.
MAX_AHEAD = 600.0
# Single precision has 24 binary digits: a figure below this keeps its whole part when it is rounded.
_WHOLE = 2.0**24
_SMALLEST, _LARGEST = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Samples of one scrape, in arrays of shape ``(n,)``.

    Attributes
    ----------
    times
        Unix seconds; a sample stands for the time up to here.
    refs
        The series, as in the scrape.
    values
        A gauge's figure or a counter's rate in its unit a second, in single precision as `Rates` says. NaN stands for
        SQL's null: the source had a figure and says that it has none now. Never infinite.
    dts
        Seconds that each sample stands for.
    dropped
        Lines left out because their time is not newer than their series' last, or too far ahead.
    """

    times: npt.NDArray[np.float64]
    refs: npt.NDArray[np.uint32]
    values: npt.NDArray[np.float64]
    dts: npt.NDArray[np.float32]
    dropped: int


class Rates:
    """Turns the scrapes of one target into samples; keeps time and figure of each series' last line.

    * A gauge stands for the interval, or for the time since its last line if that is smaller: what was not seen is
      not claimed.
    * A counter stands for the time since the scrape before, however long, so that value x dt summed up is its increase.
      Its first scrape, and the first after it fell, give no sample.
    * Values are rounded to single precision, one part in 16 million: the digits of a double beyond it are mostly the noise
      of a subtraction or of a decimal fraction, and cost three bytes a sample on disk. A gauge of 2^24 and more (bytes,
      Unix times) stays as read. What the rounding of a counter's rate leaves over counts in its next sample, so that
      value x dt summed up differs from the increase by one rounding at most, however many samples there are.
    * NaN and infinities are no figures. Where a gauge had one, its loss is one sample of NaN; a counter's line is
      passed over, and its next figure covers the gap.

    Parameters
    ----------
    interval
        Seconds between two scrapes by the schedule.
    since
        Unix seconds before which no line's own timestamp may lie: what was shown then, another collector has written.
    """

    def __init__(self, interval: float, since: float = -np.inf) -> None:
        self._interval, self._since = interval, since
        self._times = np.zeros(0)
        self._values = np.zeros(0)
        self._owed = np.zeros(0)  # by a counter: increase that no sample has told yet
        self._counters = np.zeros(0, np.bool_)

    def samples(self, scrape: Scrape, time: float, created: Mapping[int, float] | None = None) -> Samples:
        """Return what `scrape` adds.

        Parameters
        ----------
        time
            The scrape's own time, Unix seconds. A line's own timestamp goes before it.
        births
            By ref, for counters among ``scrape.new``: when the counter is known to have been 0, in Unix seconds, as
            OpenMetrics' ``_created`` says it. Its first scrape then gives a sample over the time since. Not to be given
            for a series that has samples already: they would be counted twice.
        """
        self._begin(scrape, created or {})
        refs, figures, times = scrape.refs, scrape.values, _times(scrape, time)
        since, counters = self._times[refs], self._counters[refs]
        kept = ~(times <= since) & (times >= self._since) & (times <= time + MAX_AHEAD)
        dropped = len(refs) - int(np.count_nonzero(kept))
        # A counter without a figure changes nothing: the next one is compared with the last that there was.
        kept &= np.isfinite(figures) | ~counters
        if not kept.all():
            refs, figures, times, since, counters = refs[kept], figures[kept], times[kept], since[kept], counters[kept]
        elapsed, before = times - since, self._values[refs]  # NaN for a first line
        values, dts = self._gauges(figures, before, elapsed)
        if len(at := np.flatnonzero(counters)):
            values[at], dts[at] = self._rates(refs[at], figures[at] - before[at], elapsed[at])
        self._times[refs], self._values[refs] = times, figures
        given = ~np.isnan(dts)
        if not given.all():
            times, refs, values, dts = times[given], refs[given], values[given], dts[given]
        return Samples(times, refs, values, dts.astype(np.float32), dropped)

    def move(self, seconds: float) -> None:
        """Go on by a clock that was set by as many seconds."""
        self._since += seconds
        self._times += seconds

    def _begin(self, scrape: Scrape, created: Mapping[int, float]) -> None:
        if not scrape.new:
            return
        if (size := max(scrape.new) + 1) > len(self._times):
            more = max(size - len(self._times), len(self._times), 64)  # doubles, so that growing is linear in all
            self._times = np.concatenate([self._times, np.full(more, np.nan)])
            self._values = np.concatenate([self._values, np.full(more, np.nan)])
            self._owed = np.concatenate([self._owed, np.zeros(more)])
            self._counters = np.concatenate([self._counters, np.zeros(more, np.bool_)])
        for ref, series in scrape.new.items():
            counter = series.kind == "counter"
            born = created.get(ref) if counter else None
            self._counters[ref], self._owed[ref] = counter, 0.0
            self._times[ref], self._values[ref] = (np.nan, np.nan) if born is None else (born, 0.0)

    def _gauges(
        self, figures: npt.NDArray[np.float64], before: npt.NDArray[np.float64], elapsed: npt.NDArray[np.float64]
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return values and dts; where dt is NaN there is no sample."""
        values, dts = _single(figures, _WHOLE), np.fmin(elapsed, self._interval)
        if not (figured := np.isfinite(figures)).all():
            values[~figured] = np.nan
            dts[~figured & ~np.isfinite(before)] = np.nan
        return values, dts

    def _rates(
        self, refs: npt.NDArray[np.uint32], increases: npt.NDArray[np.float64], elapsed: npt.NDArray[np.float64]
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return values and dts; where dt is NaN there is no sample."""
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            # The rate is over dt as it is stored, in single precision: so the product of both is the increase, not nearly.
            dts = elapsed.astype(np.float32).astype(np.float64)
            owed = increases + self._owed[refs]
            rates = np.fmax(_single(owed / dts, _LARGEST), 0.0)
            rates[increases == 0] = 0.0  # whatever is owed: nobody shall see a trickle where there was none
            given = np.isfinite(rates) & (increases >= 0) & (dts > 0)
            self._owed[refs[given]] = (owed - rates * dts)[given]
            dts[~given] = np.nan
        return rates, dts


def _times(scrape: Scrape, time: float) -> npt.NDArray[np.float64]:
    own = ~np.isnan(scrape.timestamps)
    times = np.full(len(own), time, np.float64)
    if own.any():
        times[own] = scrape.timestamps[own]
    return times


def _single(values: npt.NDArray[np.float64], limit: float) -> npt.NDArray[np.float64]:
    """Round to single precision what is smaller than `limit` and in its range, and leave the rest as it is."""
    sizes = np.abs(values)
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = values.astype(np.float32).astype(np.float64)
    kept = (sizes >= limit) | (sizes < _SMALLEST)
    rounded[kept] = values[kept]
    return rounded
