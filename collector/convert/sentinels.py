"""DCGM's sentinel values, which stand for a missing value.

Source: dcgm_structs.h and dcgm_fields.h, ``DCGM_INT32_BLANK``, ``DCGM_INT64_BLANK``, ``DCGM_FP64_BLANK`` and the three
that follow each: not found, not supported, no permission.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from hypergauge.collector.convert.exposition import Scrape, Series

__all__ = ["Sentinels"]

_PREFIX = "DCGM_FI_"
# Doubles are 1024 apart there, so that the four of them are one.
_INT64 = float(0x7FFFFFFFFFFFFFF0)
_FP64, _INT32 = 140737488355328.0, float(0x7FFFFFF0)


class Sentinels:
    """Finds them in the scrapes of one target; where it shows nothing of DCGM's, that costs nothing."""

    def __init__(self) -> None:
        self._dcgm: npt.NDArray[np.bool_] | None = None  # by ref

    def meet(self, new: Mapping[int, Series], count: int) -> None:
        """Look at series that are new; `count` is that of all refs."""
        if self._dcgm is not None and len(self._dcgm) < count:
            self._dcgm = np.concatenate([self._dcgm, np.zeros(count, np.bool_)])
        for ref, series in new.items():
            dcgm = series.metric.startswith(_PREFIX)
            if dcgm and self._dcgm is None:
                self._dcgm = np.zeros(count, np.bool_)
            if self._dcgm is not None:
                self._dcgm[ref] = dcgm

    def find(self, scrape: Scrape) -> npt.NDArray[np.bool_] | None:
        """Return which lines have no figure, ``None`` where all have one."""
        if self._dcgm is None:
            return None
        values = scrape.values
        blank = values == _INT64
        for first in (_FP64, _INT32):
            blank |= (values >= first) & (values <= first + 3)
        blank &= self._dcgm[scrape.refs]
        return blank if blank.any() else None
