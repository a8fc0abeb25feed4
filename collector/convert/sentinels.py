"""Filter of DCGM's sentinel values in scrapes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from hypergauge.collector.convert.exposition import Scrape, Series
from hypergauge.core.sentinels import FP64, INT32, INT64

__all__ = ["Sentinels"]

_PREFIX = "DCGM_FI_"


class Sentinels:
    """Filter of one target's scrapes. Targets without DCGM's metrics cost nothing."""

    def __init__(self) -> None:
        self._dcgm: npt.NDArray[np.bool_] | None = None  # by ref

    def meet(self, new: Mapping[int, Series], count: int) -> None:
        """Register which new series are DCGM's; `count` is the number of all refs."""
        if self._dcgm is not None and len(self._dcgm) < count:
            self._dcgm = np.concatenate([self._dcgm, np.zeros(count, np.bool_)])
        for ref, series in new.items():
            dcgm = series.metric.startswith(_PREFIX)
            if dcgm and self._dcgm is None:
                self._dcgm = np.zeros(count, np.bool_)
            if self._dcgm is not None:
                self._dcgm[ref] = dcgm

    def find(self, scrape: Scrape) -> npt.NDArray[np.bool_] | None:
        """Return a mask of the lines without a value, ``None`` if all lines have one."""
        if self._dcgm is None:
            return None
        values = scrape.values
        missing = values == float(INT64)  # doubles are 1024 apart there: the four sentinels are equal
        for sentinels in (FP64, INT32):
            missing |= (values >= sentinels[0]) & (values <= sentinels[-1])
        missing &= self._dcgm[scrape.refs]
        return missing if missing.any() else None
