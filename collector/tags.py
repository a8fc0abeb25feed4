"""Which run set a sample belongs to: decided by its own time against the spans of the sets on its place."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from sql.samples import Segment

__all__ = ["Tags"]


class Tags:
    """The run sets of all places over a span of time.

    Parameters
    ----------
    segments
        Spans of run sets; those of one place do not overlap.
    since
        Unix seconds from which on they are complete.
    version
        Of the run sets, see `sql.samples.tag_version`.
    """

    def __init__(self, segments: Iterable[Segment] = (), since: float = np.inf, version: int = -1) -> None:
        self.since, self.version = since, version
        places: dict[int, list[Segment]] = {}
        for segment in sorted(segments, key=lambda segment: segment.started_at):
            places.setdefault(segment.place_id, []).append(segment)
        self._places = {
            place: (
                np.array([s.started_at for s in spans]),
                np.array([s.ended_at for s in spans]),
                np.array([s.runset_id for s in spans], np.int32),
            )
            for place, spans in places.items()
        }

    def tag(self, places: npt.NDArray[np.int32], times: npt.NDArray[np.float64]) -> npt.NDArray[np.int32]:
        """Return run set ids for samples of shape ``(n,)`` by place and time; 0 where nobody ran. Runs are [start, end)."""
        tags = np.zeros(len(times), np.int32)
        if not self._places:
            return tags
        # The database has microseconds, and so have the spans: compared as such, an edge falls on the same side.
        times = np.round(times * 1e6) / 1e6
        for place in np.flatnonzero(np.bincount(places)).tolist():
            if place not in self._places:
                continue
            starts, ends, ids = self._places[place]
            here = places == place
            index = np.searchsorted(starts, times[here], side="right") - 1
            inside = (index >= 0) & (times[here] < ends[index])
            tags[here] = np.where(inside, ids[index], 0)
        return tags
