"""Created timestamps of runs' counters, as OpenMetrics' ``_created``, which the text format lacks."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from hypergauge.collector.convert.exposition import Scrape, Series

__all__ = ["CreatedTimestamps"]

# Exporter's line with the release time of a run; the run's counters in the same response were 0 then.
_START_METRIC = re.compile(r"bench_[a-z0-9_]+_start_time_seconds")
# Longest delay between a run's start and its first appearance in a response, in seconds.
_SLACK = 5.0


@dataclass(slots=True)
class _Run:
    """Run that is scraped from its start on.

    Attributes
    ----------
    ref, series
        The line with the start time.
    counted
        The run's known counters, by metric and labels: the parser may forget a series and add it again.
    """

    started_at: float
    ref: int
    series: Series
    counted: set[tuple[str, tuple[tuple[str, str], ...]]] = field(default_factory=set)


class CreatedTimestamps:
    """Created timestamps of the counters of runs, each reported once.

    The collector measures a run from its start if the run starts after `since` and its line appears in the next scrape.
    The counters of an older run continue from their current values, since an earlier process measured it. A counter of
    a run that the collector measures from its start was 0 at that start, however late the counter appears. A run that
    takes up a GPU after minutes has used nothing of it before.

    Parameters
    ----------
    since
        Unix seconds at which scrapes of the target begin.
    """

    def __init__(self, since: float) -> None:
        self._since = since
        self._runs: dict[str, _Run] = {}

    def of(
        self,
        scrape: Scrape,
        series: Sequence[Series],
        at: float,
        last_time: float | None,
        resumed: Collection[int] = (),
    ) -> dict[int, float]:
        """Return the created timestamps of the new counters in `scrape`, in Unix seconds by ref.

        Parameters
        ----------
        series
            All series by ref, as the parser has them now.
        at, last_time
            Times of this scrape and of the previous one, Unix seconds.
        resumed
            New series that an earlier process of this collector has scraped, at `since` last. A run with such a line is
            measured since then: its other counters were 0.
        """
        if not scrape.new:
            return {}
        # Runs are kept as long as the parser knows the line, which bounds them by the number of series.
        self._runs = {run_id: run for run_id, run in self._runs.items() if series[run.ref] is run.series}
        self._meet(scrape, at, last_time, resumed)
        created = {}
        for ref, one in scrape.new.items():
            if one.kind != "counter" or (run := self._runs.get(_run_id(one))) is None:
                continue
            key = one.metric, one.labels
            if key not in run.counted:
                run.counted.add(key)
                if ref not in resumed:
                    created[ref] = run.started_at
        return created

    def move(self, seconds: float) -> None:
        """Follow a collector clock that was set by `seconds`."""
        self._since += seconds
        for run in self._runs.values():
            run.started_at += seconds

    def _meet(self, scrape: Scrape, at: float, last_time: float | None, resumed: Collection[int]) -> None:
        starts = {
            ref: run_id
            for ref, one in scrape.new.items()
            if _START_METRIC.fullmatch(one.metric) and (run_id := _run_id(one))
        }
        if not starts:
            return
        earliest = self._since if last_time is None else max(self._since, last_time - _SLACK)
        values = dict(zip(scrape.refs.tolist(), scrape.values.tolist(), strict=True))
        for ref, run_id in starts.items():
            if run_id in self._runs or ref not in values:
                continue
            started_at = max(values[ref], self._since) if ref in resumed else values[ref]
            if earliest <= started_at <= at + 1:
                self._runs[run_id] = _Run(started_at, ref, scrape.new[ref])


def _run_id(series: Series) -> str:
    return dict(series.labels).get("run_id", "")
