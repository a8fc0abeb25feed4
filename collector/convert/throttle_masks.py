"""Conversion of bit masks of clock reasons to flags of throttling."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from hypergauge.collector.convert.exposition import Series
from hypergauge.core.throttle_reasons import THROTTLING_MASK

__all__ = ["ThrottleMasks"]

# Metrics of dcgm-exporter and nvidia_gpu_exporter, each in its old and its new name.
_METRICS = frozenset(
    f"{prefix}{name}"
    for prefix, names in (
        ("DCGM_FI_DEV_", ("CLOCK_THROTTLE_REASONS", "CLOCKS_EVENT_REASONS")),
        ("nvidia_smi_clocks_", ("throttle_reasons_active", "event_reasons_active")),
    )
    for name in names
)


class ThrottleMasks:
    """Lines of one target that hold bit masks; targets without them cost nothing.

    The mean of a mask over time means nothing. That of a flag is the share of the time, as for ``bench_gpu_throttled``.
    """

    def __init__(self) -> None:
        self._refs: set[int] = set()

    def register(self, new: Mapping[int, Series]) -> None:
        """Register which new series are masks."""
        self._refs -= new.keys()
        self._refs |= {ref for ref, series in new.items() if series.metric in _METRICS}

    def flags(self, refs: npt.NDArray[np.uint32], values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the values, each mask replaced by 1 where heat or power limits the clocks, else by 0."""
        if not self._refs:
            return values
        flags = values.copy()
        for at in np.flatnonzero(np.isin(refs, list(self._refs)) & np.isfinite(values)).tolist():
            flags[at] = float(int(values[at]) & THROTTLING_MASK != 0)
        return flags
