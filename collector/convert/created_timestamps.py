"""Created timestamps of runs' counters, as OpenMetrics' ``_created``, which our text format lacks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from hypergauge.collector.convert.exposition import Scrape, Series

__all__ = ["CreatedTimestamps"]

# An exporter's line that says when a run was released; the run's counters in the same body were 0 then.
_START_METRIC = re.compile(r"bench_[a-z0-9_]+_start_time_seconds")
# How much later than its first moment a run may show up in a body, in seconds.
_SLACK = 5.0


@dataclass(slots=True)
class _Run:
    """A run that is followed from its first moment on.

    Attributes
    ----------
    ref, series
        The line that told.
    counted
        Its counters that were met, by metric and labels: the parser may forget one and meet it again.
    """

    started_at: float
    ref: int
    series: Series
    counted: set[tuple[str, tuple[tuple[str, str], ...]]] = field(default_factory=set)


class CreatedTimestamps:
    """Tells of each counter of a run, when it is first met, since when it has been counting.

    A run counts as followed from its first moment on where its start is not before `since` and its line appears in the
    first scrape thereafter. An older one has been measured before, if not by this process: its counters go on from where
    they are. What a run that is followed counts was 0 at its start, however late it shows: a run that takes up a GPU
    after minutes has used nothing of it until then.

    Parameters
    ----------
    since
        Unix seconds from which on the target is followed.
    """

    def __init__(self, since: float) -> None:
        self._since = since
        self._runs: dict[str, _Run] = {}

    def of(self, scrape: Scrape, series: Sequence[Series], at: float, last_time: float | None) -> dict[int, float]:
        """Return when counters that are new in `scrape` were 0, in Unix seconds by ref: each is told once.

        Parameters
        ----------
        series
            All series by ref, as the parser has them now.
        at, last_time
            The times of this scrape and of the one before, Unix seconds.
        """
        if not scrape.new:
            return {}
        # For as long as the parser knows the line: so they are no more than it has series.
        self._runs = {run_id: run for run_id, run in self._runs.items() if series[run.ref] is run.series}
        self._meet(scrape, at, last_time)
        created = {}
        for ref, one in scrape.new.items():
            if one.kind != "counter" or (run := self._runs.get(_run_id(one))) is None:
                continue
            key = one.metric, one.labels
            if key not in run.counted:
                run.counted.add(key)
                created[ref] = run.started_at
        return created

    def move(self, seconds: float) -> None:
        """Go on by a clock that was set by as many seconds."""
        self._since += seconds
        for run in self._runs.values():
            run.started_at += seconds

    def _meet(self, scrape: Scrape, at: float, last_time: float | None) -> None:
        starts = {
            ref: run_id
            for ref, one in scrape.new.items()
            if _START_METRIC.fullmatch(one.metric) and (run_id := _run_id(one))
        }
        if not starts:
            return
        earliest = self._since if last_time is None else max(self._since, last_time - _SLACK)
        figures = dict(zip(scrape.refs.tolist(), scrape.values.tolist(), strict=True))
        for ref, run_id in starts.items():
            if run_id not in self._runs and ref in figures and earliest <= figures[ref] <= at + 1:
                self._runs[run_id] = _Run(figures[ref], ref, scrape.new[ref])


def _run_id(series: Series) -> str:
    return dict(series.labels).get("run_id", "")
