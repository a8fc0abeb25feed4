"""Counters of ``perf stat`` for a run, read from the file in the run's folder."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

from hypergauge.exporters.process.topdown import TOPDOWN_HELPS, topdown_shares

__all__ = ["EVENTS_TOTAL", "PERF_HELPS", "PerfCounters"]

# Read at once. A second of events takes 500 bytes, so a reader that starts after a day catches up within a minute.
_READ_BYTES = 1 << 20
# Metric of the events without one of their own, with the event as a label.
EVENTS_TOTAL = "perf_events_total"

_COUNTER_HELPS = {
    "instructions_total": "Instructions executed by the run's processes.",
    "cycles_total": "Processor cycles spent on the run's processes.",
    "cache_loads_total": "Loads of the run that reached the last-level cache.",
    "cache_load_misses_total": "Loads of the run that missed the last-level cache.",
    "branches_total": "Branch instructions executed by the run's processes.",
    "branch_misses_total": "Mispredicted branches of the run.",
    "context_switches_total": "Context switches of the run's threads, voluntary or not.",
    "page_faults_total": "Page faults of the run.",
    "l1_loads_total": "Loads of the run from the L1 data cache.",
    "l1_load_misses_total": "Loads of the run that missed the L1 data cache.",
    "l2_loads_total": "Loads of the run that reached the L2 cache.",
    "l2_load_misses_total": "Loads of the run that missed the L2 cache.",
    "dtlb_loads_total": "Lookups of data addresses in the TLB that the processor counts.",
    "dtlb_load_misses_total": "Lookups of data addresses that missed this TLB.",
    "itlb_loads_total": "Lookups of instruction addresses in the TLB that the processor counts.",
    "itlb_load_misses_total": "Lookups of instruction addresses that missed this TLB.",
    "frontend_stalled_cycles_total": "Cycles in which the front end supplied no operation.",
    "backend_stalled_cycles_total": "Cycles in which the back end accepted no operation.",
}
# Metrics by perf's name of the event. Hits and misses add up to the loads of a cache.
_COUNTERS = {
    "instructions": ("instructions_total",),
    "cycles": ("cycles_total",),
    "LLC-loads": ("cache_loads_total",),
    "LLC-load-misses": ("cache_load_misses_total",),
    "branches": ("branches_total",),
    "branch-misses": ("branch_misses_total",),
    "context-switches": ("context_switches_total",),
    "page-faults": ("page_faults_total",),
    "L1-dcache-loads": ("l1_loads_total",),
    "L1-dcache-load-misses": ("l1_load_misses_total",),
    "l2_rqsts.demand_data_rd_hit": ("l2_loads_total",),
    "l2_rqsts.demand_data_rd_miss": ("l2_loads_total", "l2_load_misses_total"),
    "l2_cache_req_stat.dc_hit_in_l2": ("l2_loads_total",),
    "l2_cache_req_stat.ls_rd_blk_c": ("l2_loads_total", "l2_load_misses_total"),
    "l2d_cache": ("l2_loads_total",),
    "l2d_cache_refill": ("l2_load_misses_total",),
    "dTLB-loads": ("dtlb_loads_total",),
    "dTLB-load-misses": ("dtlb_load_misses_total",),
    "iTLB-loads": ("itlb_loads_total",),
    "iTLB-load-misses": ("itlb_load_misses_total",),
    "stalled-cycles-frontend": ("frontend_stalled_cycles_total",),
    "stalled-cycles-backend": ("backend_stalled_cycles_total",),
}
# Numerator, denominator and help text by metric.
_RATIOS = {
    "instructions_per_cycle": ("instructions_total", "cycles_total", "Instructions per cycle since the previous read."),
    "cache_miss_ratio": (
        "cache_load_misses_total", "cache_loads_total", "Share of loads that missed the last-level cache."
    ),
    "branch_miss_ratio": ("branch_misses_total", "branches_total", "Share of mispredicted branches."),
    "l1_miss_ratio": ("l1_load_misses_total", "l1_loads_total", "Share of loads that missed the L1 data cache."),
    "l2_miss_ratio": ("l2_load_misses_total", "l2_loads_total", "Share of the L2 cache's loads that missed it."),
    "dtlb_miss_ratio": ("dtlb_load_misses_total", "dtlb_loads_total", "Share of counted data lookups that missed."),
    "itlb_miss_ratio": (
        "itlb_load_misses_total", "itlb_loads_total", "Share of counted instruction lookups that missed."
    ),
    "frontend_stalled_ratio": (
        "frontend_stalled_cycles_total", "cycles_total", "Share of cycles in which the front end supplied no operation."
    ),
    "backend_stalled_ratio": (
        "backend_stalled_cycles_total", "cycles_total", "Share of cycles in which the back end accepted no operation."
    ),
}  # fmt: skip
# Events of the kernel. Restricted to user mode, as perf counts without privileges, they are always 0.
_KERNEL_EVENTS = frozenset({"context-switches", "cs", "cpu-migrations", "migrations"})
# Percent of an interval. perf counts more events than there are counters in turns, and extrapolates: a ratio of events
# that it counted for less is mostly noise.
_SHORTEST = 5.0
_MODES = re.compile(r":([ukhIGHpPSDWeb]+)$")

PERF_HELPS = {
    **_COUNTER_HELPS,
    **{name: text for name, (_, _, text) in _RATIOS.items()},
    **TOPDOWN_HELPS,
    EVENTS_TOTAL: "Events of the run that have no metric of their own, by perf's name of the event.",
}


class PerfCounters:
    """Totals in one run's file.

    Attributes
    ----------
    totals
        By perf's name of the event.
    ratios
        By metric.
    seconds
        Time of the newest counts, in seconds since perf started with the run.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._offset = path, 0
        self.totals: dict[str, float] = {}
        self.ratios: dict[str, float] = {}
        # Whether the whole file was read. Earlier totals would look like a fall after a restart of the exporter.
        self._current = False
        self.seconds = 0.0

    def live(self) -> dict[str, float]:
        """Return totals and latest ratios by metric; empty until the whole file was read."""
        return self.final() | self.ratios if self._current else {}

    def final(self) -> dict[str, float]:
        """Return totals by metric; empty until the whole file was read."""
        return _by_metric(self.totals) if self._current else {}

    def events(self) -> dict[str, float]:
        """Return totals of the events without a metric of their own; empty until the whole file was read."""
        return {event: total for event, total in self.totals.items() if event not in _COUNTERS} if self._current else {}

    def read(self) -> None:
        """Read new lines; a missing file counts as empty."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                text = file.read(_READ_BYTES)
        except OSError:
            return
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        self._current = len(text) < _READ_BYTES
        found = [count for line in whole.decode(errors="replace").splitlines() if (count := _counted(line)) is not None]
        for count in found:
            self.seconds = count.second
            self.totals[count.event] = self.totals.get(count.event, 0.0) + count.count
        if found:
            self.ratios = _ratios(found)


@dataclass(frozen=True, slots=True)
class _Count:
    """Count of an interval; `percent` of it, the event was on a counter."""

    second: float
    event: str
    count: float
    percent: float


def _ratios(found: list[_Count]) -> dict[str, float]:
    short = {count.event for count in found if count.percent < _SHORTEST}
    counts: dict[str, float] = {}
    for count in found:
        if count.event not in short:
            counts[count.event] = counts.get(count.event, 0.0) + count.count
    totals = _by_metric(counts)
    ratios = {
        name: totals[over] / totals[under]
        for name, (over, under, _) in _RATIOS.items()
        if over in totals and totals.get(under)
    }
    return ratios | topdown_shares(counts)


def _by_metric(counts: dict[str, float]) -> dict[str, float]:
    totals: dict[str, float] = {}
    for event, count in counts.items():
        for name in _COUNTERS.get(event, ()):
            totals[name] = totals.get(name, 0.0) + count
    return totals


def _counted(line: str) -> _Count | None:
    """Return the count of a line ``second;count;unit;event;nanoseconds;percent…``, ``None`` where nothing was counted."""
    fields = line.split(";")
    if len(fields) < 6:
        return None
    try:
        second, count, percent = (float(fields[at].strip().replace(",", ".")) for at in (0, 1, 5))
    except ValueError:  # <not supported>, <not counted>
        return None
    if not (math.isfinite(second) and 0 <= count < math.inf):
        return None
    name, modes = fields[3], ""
    if "/" in name:  # cpu_core/instructions/: a hybrid processor has a line for each kind of core
        name, _, modes = name.split("/", 1)[1].partition("/")
    elif found := _MODES.search(name):
        name, modes = name[: found.start()], found[1]
    return None if not name or ("u" in modes and name in _KERNEL_EVENTS) else _Count(second, name, count, percent)
