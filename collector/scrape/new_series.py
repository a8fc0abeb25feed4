"""Bound on the new series of a target, whose rows stay in the database."""

from __future__ import annotations

import math

from hypergauge.collector.convert.series_labels import LimitExceeded

__all__ = ["NewSeries"]

_WITHIN_SECONDS = 3600.0
# Far above a host's exporters: some thousand series, and some hundred for each new run.
_MOST = 200_000


class NewSeries:
    """Number of a target's new series within an hour."""

    def __init__(self) -> None:
        self._since, self._count = -math.inf, 0

    def add(self, count: int, at: float, sample_limit: int) -> LimitExceeded | None:
        """Count the new series of a scrape at `at` (Unix seconds), or return why the scrape fails.

        A job whose targets have more series says so by its `sample_limit`.
        """
        if not 0 <= at - self._since < _WITHIN_SECONDS:
            self._since, self._count = at, 0
        most = max(_MOST, sample_limit)
        if self._count + count > most:
            return LimitExceeded(
                "new_series", f"more than {most} new series within an hour: raise sample_limit, or drop labels"
            )
        self._count += count
        return None
