"""Tags of samples: the run set of each sample, by its time and its resource."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hypergauge.sql.ingest.samples import Segment

__all__ = ["Part", "Tags"]

# Shorter parts of a sample, in seconds and as a share of it, stay with their neighbour: `dt` is rounded.
_SHORTEST, _SMALLEST = 1e-3, 1e-6
# Seconds before a boundary that a gauge may cover: as many are missing before the next one.
_GAUGE_REACHES = 1.0
# Seconds before a boundary at which a part for the previous set ends: the database has microseconds.
_BEFORE = 1e-6


class Part(NamedTuple):
    """Part of a sample's interval: the sample's position, the part's end, and its seconds."""

    sample: int
    time: float
    dt: float


class _Spans(NamedTuple):
    """Run sets of one resource in the order of time, and the boundaries at which one begins or ends."""

    starts: npt.NDArray[np.float64]
    ends: npt.NDArray[np.float64]
    ids: npt.NDArray[np.int32]
    boundaries: npt.NDArray[np.float64]


class Tags:
    """Run sets of all resources over an interval.

    Parameters
    ----------
    segments
        Intervals of run sets; those of one resource do not overlap.
    since
        Unix seconds from which on the segments are complete.
    version
        Version of the run sets, see `hypergauge.sql.ingest.samples.tag_version`.
    """

    def __init__(self, segments: Iterable[Segment] = (), since: float = np.inf, version: int = -1) -> None:
        self.since, self.version = since, version
        resources: dict[int, list[Segment]] = {}
        for segment in sorted(segments, key=lambda segment: segment.started_at):
            resources.setdefault(segment.place_id, []).append(segment)
        self._resources = {resource: _spans(segments) for resource, segments in resources.items()}

    def tag(self, resources: npt.NDArray[np.int32], times: npt.NDArray[np.float64]) -> npt.NDArray[np.int32]:
        """Return run set ids for samples of shape ``(n,)`` by resource and time; 0 without a run.

        Runs are [start, end).
        """
        tags = np.zeros(len(times), np.int32)
        # The database and the spans have microseconds. Rounded times fall on the same side of a boundary in both.
        times = np.round(times * 1e6) / 1e6
        for here, spans in self._present(resources):
            index = np.searchsorted(spans.starts, times[here], side="right") - 1
            inside = (index >= 0) & (times[here] < spans.ends[index])
            tags[here] = np.where(inside, spans.ids[index], 0)
        return tags

    def parts(
        self,
        resources: npt.NDArray[np.int32],
        times: npt.NDArray[np.float64],
        dts: npt.NDArray[np.float32],
        counters: npt.NDArray[np.int32],
    ) -> list[Part]:
        """Return the parts of samples that cover several run sets; most samples cover one.

        A counter's sample is divided at the begins and ends of sets, so that each set gets its part of the increase. A
        gauge's sample covers the time since the last boundary, or one second: no scrape saw the values before. `divide`
        in ``sql/schema/functions/bench_internal/20_run_sets.sql`` does the same for stored samples.
        """
        found = []
        begins = times - dts
        least = np.maximum(_SHORTEST, _SMALLEST * dts)
        for here, spans in self._present(resources):
            if not len(spans.boundaries):
                continue
            first = np.searchsorted(spans.boundaries, begins[here] + least[here])
            last = np.searchsorted(spans.boundaries, times[here], side="right")
            for at in np.flatnonzero(first < last).tolist():
                sample, inner = int(here[at]), spans.boundaries[first[at] : last[at]].tolist()
                time, dt = float(times[sample]), float(dts[sample])
                if counters[sample]:
                    found += _divided(sample, time - dt, inner, time)
                elif dt > (kept := max(time - inner[-1], _GAUGE_REACHES)):
                    found.append(Part(sample, time, kept))
        return found

    def _present(self, resources: npt.NDArray[np.int32]) -> Iterable[tuple[npt.NDArray[np.intp], _Spans]]:
        if not self._resources or not len(resources):
            return
        for resource in np.flatnonzero(np.bincount(resources)).tolist():
            if resource in self._resources:
                yield np.flatnonzero(resources == resource), self._resources[resource]


def _spans(segments: list[Segment]) -> _Spans:
    starts, ends = np.array([s.started_at for s in segments]), np.array([s.ended_at for s in segments])
    # Usage of a run's own processes belongs to the run as a whole: no division there.
    boundaries = np.unique([boundary for s in segments if not s.own for boundary in (s.started_at, s.ended_at)])
    return _Spans(
        starts, ends, np.array([s.runset_id for s in segments], np.int32), boundaries[np.isfinite(boundaries)]
    )


def _divided(sample: int, begin: float, boundaries: list[float], time: float) -> list[Part]:
    parts = []
    for boundary in boundaries:
        if boundary - begin >= _SHORTEST:
            parts.append(Part(sample, boundary - _BEFORE, boundary - begin))
            begin = boundary
    if time - begin >= _SHORTEST:
        parts.append(Part(sample, time, time - begin))
    return parts
