"""Timestamps for the last totals of ended runs, from the exporter's end timestamps."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from hypergauge.collector.convert.exposition import Scrape, Series

__all__ = ["RunEnds"]

# Exporter's line with the end time of a run; the run's other lines in the same response are its last.
_END_METRIC = re.compile(r"bench_[a-z0-9_]+_end_time_seconds")


class RunEnds:
    """Detection of ended runs in responses, and timestamps for their lines: the last millisecond of the run.

    All usage of a run thus counts within it: also between the last scrape and the end, and for a run that no scrape
    saw. The lines have no timestamp on the wire, because they would be out of order for Prometheus. It writes a stale
    marker when a series' lines become timestamped, and refuses older ones.
    """

    def __init__(self) -> None:
        self._lines: dict[int, Series] = {}
        self._shown: set[str] = set()  # runs that the previous response shows as ended
        self._over: set[str] = set()

    def of(self, scrape: Scrape, series: Sequence[Series], since: float = -math.inf) -> dict[str, float]:
        """Return the end times of the runs that the response shows as ended, in Unix seconds by run id.

        Parameters
        ----------
        series
            All series by ref, as the parser has them now.
        since
            Unix seconds at which scrapes of the target began. Lines of runs that ended before are omitted.
        """
        self._lines |= {ref: one for ref, one in scrape.new.items() if _END_METRIC.fullmatch(one.metric)}
        if not self._lines:
            self._shown, self._over = set(), set()
            return {}
        # Lines are kept as long as the parser knows them.
        self._lines = {ref: one for ref, one in self._lines.items() if series[ref] is one}
        shown = np.flatnonzero(np.isin(scrape.refs, list(self._lines)))
        ends = zip(scrape.refs[shown].tolist(), scrape.values[shown].tolist(), strict=True)
        found = {_run_id(self._lines[ref]): end for ref, end in ends if math.isfinite(end)}
        found.pop("", None)
        self._shown = set(found)
        self._over = self._over & self._shown | {run_id for run_id, end in found.items() if end < since}
        return found

    def go_by_another_time(self) -> None:
        """Omit the lines of runs that have already ended: they are written, and would get a second timestamp."""
        self._over |= self._shown

    def left_out(self, scrape: Scrape, series: Sequence[Series]) -> npt.NDArray[np.bool_] | None:
        """Return a mask of the omitted lines; ``None`` if there are none."""
        if not self._over:
            return None
        return np.array([_run_id(series[ref]) in self._over for ref in scrape.refs.tolist()], np.bool_)

    @staticmethod
    def date(scrape: Scrape, series: Sequence[Series], ends: Mapping[str, float]) -> None:
        """Set the timestamps of lines without one that belong to the runs in `ends`."""
        for position, ref in enumerate(scrape.refs.tolist()):
            end = ends.get(_run_id(series[ref]))
            if end is not None and math.isnan(scrape.timestamps[position]):
                scrape.timestamps[position] = (math.floor(end * 1000) - 1) / 1000


def _run_id(series: Series) -> str:
    return dict(series.labels).get("run_id", "")
