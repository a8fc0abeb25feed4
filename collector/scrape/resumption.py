"""Continuation of a target's counters from an earlier process of this collector."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Self

import numpy as np

from hypergauge.collector.convert.exposition import Scrape
from hypergauge.collector.convert.rates import LastLine
from hypergauge.collector.scrape.last_lines import LastLines, SeriesKey, series_key
from hypergauge.collector.spool.records import SeriesDefinition, SpoolRecord

__all__ = ["NewestSamples", "Resumption", "newest_samples"]

# Time of the last start of what counts; later than the last scrape, the counters have started over.
_BOOT_METRIC, _PROCESS_METRIC = "node_boot_time_seconds", "process_start_time_seconds"

_DefinitionKey = tuple[object, str, tuple[tuple[str, str], ...]]
# Samples of the newest record by target, metric and labels: time, and increase of a counter.
NewestSamples = Mapping[_DefinitionKey, Sequence[tuple[float, float]]]


def newest_samples(record: SpoolRecord | None) -> NewestSamples:
    """Return the samples of the newest record of an earlier process."""
    samples: dict[_DefinitionKey, list[tuple[float, float]]] = {}
    if record is not None:
        columns = (record.refs, record.times, record.values * record.dts.astype(np.float64))
        for ref, time, increase in zip(*(column.tolist() for column in columns), strict=True):
            samples.setdefault(_key(record.series[ref]), []).append((time, increase))
    return samples


class Resumption:
    """Last lines of a target's series in an earlier process, from which they continue; by default none.

    Parameters
    ----------
    lines
        The last lines by series.
    newest
        Samples of the spool's last record, which the lines may lack.

    Attributes
    ----------
    at
        Time of the earlier process's last scrape; ``None`` without lines.
    """

    def __init__(self, lines: Mapping[SeriesKey, LastLine] | None = None, newest: NewestSamples | None = None) -> None:
        self._lines, self._newest = dict(lines or {}), newest or {}
        self.at = max((line.time for line in self._lines.values()), default=None)

    @classmethod
    def read(cls, state: LastLines, newest: NewestSamples, held_since: float, began: float) -> Self:
        """Read the last lines.

        Parameters
        ----------
        held_since
            Unix seconds since when no other collector has held the target, which would have scraped it.
        began
            Begin of this process's scrapes: a state of the future is not used.
        """
        read = cls(state.read(), newest)
        return read if read.at is not None and held_since <= read.at <= began else cls()

    def of(self, scrape: Scrape, definition: Callable[[int], SeriesDefinition | None]) -> dict[int, LastLine]:
        """Return the last lines of a scrape's new series by ref; `definition` returns ``None`` for one that is dropped."""
        if not self._lines or not scrape.new:
            return {}
        self._drop_restarted(scrape)
        lines = {}
        for ref, series in scrape.new.items():
            line, defined = self._lines.pop(series_key(series), None), definition(ref)
            if line is None or defined is None:
                continue
            # The newest record is in the spool; the process was killed before it saved the lines.
            for time, increase in self._newest.get(_key(defined), ()):
                if time > line.time:
                    line = LastLine(time, line.value - line.residual + increase, 0.0)
            lines[ref] = line
        return lines

    def _drop_restarted(self, scrape: Scrape) -> None:
        """Forget the last lines of counters that have started over: after a boot all, after a process's start its own."""
        last = max(line.time for line in self._lines.values())
        for ref, series in scrape.new.items():
            if series.metric not in (_BOOT_METRIC, _PROCESS_METRIC):
                continue
            started_at = scrape.values[scrape.refs == ref]
            if len(started_at) and started_at[0] > last:
                kernel = series.metric == _PROCESS_METRIC
                self._lines = {key: line for key, line in self._lines.items() if kernel and key[0].startswith("node_")}
                return


def _key(definition: SeriesDefinition) -> _DefinitionKey:
    """Return the key of a series; a target without an id in the database has its row."""
    return definition.target or definition.target_id, definition.metric, tuple(sorted(definition.labels.items()))
