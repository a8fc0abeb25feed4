"""Time from the end of a fault until samples are written again."""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.campaign.site import Site
from hypergauge.core.system.uptime import uptime

__all__ = ["Recovery", "percentiles"]

_WRITTEN = "bench_collector_samples_total"
_LONGEST_SECONDS = 120.0


class Recovery:
    """Recovery of a site from a fault that has ended.

    Attributes
    ----------
    seconds
        Seconds from the end of the fault, until now or until the recovery.
    """

    def __init__(self, site: Site, since: float) -> None:
        self.seconds = 0.0
        self._site, self._since = site, since
        self._written = site.metric(_WRITTEN) or 0.0  # 0 of a collector that has just started

    def ended(self) -> bool:
        """Return whether samples are written, and the server of running runs answers; report a recovery that takes too long."""
        written = self._site.metric(_WRITTEN)
        self.seconds = uptime() - self._since
        if written is not None and written > self._written and (self._site.server.answers or not self._site.running()):
            return True
        if self.seconds < _LONGEST_SECONDS:
            return False
        self._site.report(f"there is no recovery within {_LONGEST_SECONDS:.0f} s", self._since)
        return True


def percentiles(recoveries: Iterable[tuple[str, float]]) -> dict[str, float | str]:
    """Return the median and the 99th percentile of the recoveries in seconds, over all faults and by fault."""
    groups: dict[str, list[float]] = {}
    for name, seconds in recoveries:
        for group in ("", f"{name}_"):
            groups.setdefault(group, []).append(seconds)
    return {
        f"{group}recovery_p{percent}_seconds": sorted(values)[min(len(values) * percent // 100, len(values) - 1)]
        for group, values in groups.items()
        for percent in (50, 99)
    }
