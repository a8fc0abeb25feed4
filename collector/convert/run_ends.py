"""Timestamps for the last totals of ended runs, from the exporter's end timestamps."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from hypergauge.collector.convert.exposition import Scrape, Series

__all__ = ["RunEnds"]

# An exporter's line that says when a run ended; the run's other lines in the same body are its last.
_END_METRIC = re.compile(r"bench_[a-z0-9_]+_end_time_seconds")


class RunEnds:
    """Tells which runs a body calls ended, and dates their lines to the last millisecond of the run.

    So all that a run used counts within it: also between the last scrape and the end, and of a run that no scrape saw.
    The lines have no timestamp on the wire, because to Prometheus they would be out of order: it writes a stale marker
    when the lines of a series become dated, and refuses what is older.
    """

    def __init__(self) -> None:
        self._lines: dict[int, Series] = {}
        self._shown: set[str] = set()  # runs that the body before called ended
        self._over: set[str] = set()

    def of(self, scrape: Scrape, series: Sequence[Series]) -> dict[str, float]:
        """Return when the runs ended that the body calls ended, in Unix seconds by run id.

        Parameters
        ----------
        series
            All series by ref, as the parser has them now.
        """
        self._lines |= {ref: one for ref, one in scrape.new.items() if _END_METRIC.fullmatch(one.metric)}
        if not self._lines:
            self._shown, self._over = set(), set()
            return {}
        # For as long as the parser knows the line.
        self._lines = {ref: one for ref, one in self._lines.items() if series[ref] is one}
        shown = np.flatnonzero(np.isin(scrape.refs, list(self._lines)))
        ends = zip(scrape.refs[shown].tolist(), scrape.values[shown].tolist(), strict=True)
        found = {_run_id(self._lines[ref]): end for ref, end in ends if math.isfinite(end)}
        found.pop("", None)
        self._shown = set(found)
        self._over &= self._shown
        return found

    def go_by_another_time(self) -> None:
        """Have what is shown of runs that have ended by now left out: it is written, and would be dated a second time."""
        self._over |= self._shown

    def left_out(self, scrape: Scrape, series: Sequence[Series]) -> npt.NDArray[np.bool_] | None:
        """Return of each line whether it is left out; ``None`` where none is."""
        if not self._over:
            return None
        return np.array([_run_id(series[ref]) in self._over for ref in scrape.refs.tolist()], np.bool_)

    @staticmethod
    def date(scrape: Scrape, series: Sequence[Series], ends: Mapping[str, float]) -> None:
        """Date the lines of the runs in `ends` that have no timestamp."""
        for position, ref in enumerate(scrape.refs.tolist()):
            end = ends.get(_run_id(series[ref]))
            if end is not None and math.isnan(scrape.timestamps[position]):
                scrape.timestamps[position] = (math.floor(end * 1000) - 1) / 1000


def _run_id(series: Series) -> str:
    return dict(series.labels).get("run_id", "")
