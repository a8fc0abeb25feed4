"""Counters of ``perf stat`` for a run, read from the file in the run's folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

__all__ = ["PerfCounters", "PerfFamilies"]

# Read at once. A line an event and second is 500 bytes: who comes to a run after a day has read all in a minute.
_READ_BYTES = 1 << 20

# By perf's name of the event: ours, and what it is.
_COUNTERS = {
    "instructions": ("instructions_total", "Instructions that the run's processes have executed."),
    "cycles": ("cycles_total", "Cycles that processors have spent on the run's processes."),
    "LLC-loads": ("cache_loads_total", "Loads of the run that came to the last-level cache."),
    "LLC-load-misses": ("cache_load_misses_total", "Loads of the run that the last-level cache did not have."),
    "branches": ("branches_total", "Branches that the run's processes have taken or not."),
    "branch-misses": ("branch_misses_total", "Branches of the run that were predicted wrongly."),
    "context-switches": ("context_switches_total", "Times that a thread of the run gave its processor up, or had to."),
    "page-faults": ("page_faults_total", "Page faults of the run."),
}
_RATIOS = {
    ("instructions", "cycles"): ("instructions_per_cycle", "Instructions a cycle, since the reading before."),
    ("LLC-load-misses", "LLC-loads"): ("cache_miss_ratio", "Share of loads that the last-level cache did not have."),
    ("branch-misses", "branches"): ("branch_miss_ratio", "Share of branches that were predicted wrongly."),
}
# Events of the kernel: of those in user mode alone, which is what perf counts where it may not more, there are none.
_OF_THE_KERNEL = frozenset({"context-switches"})


class PerfCounters:
    """One run's file.

    Attributes
    ----------
    totals
        By perf's name of the event; those that the processor does not count are not among them.
    ratios
        By the two events, of the newest seconds.
    seconds
        How far perf has come, counted from its start.
    is_current
        Whether all that is in the file was read. Totals before that would seem to fall when the reader starts anew.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._offset = path, 0
        self.totals: dict[str, float] = {}
        self.ratios: dict[tuple[str, str], float] = {}
        self.seconds = 0.0
        self.is_current = False

    def read(self) -> None:
        """Read what is new; a file that is not there has nothing."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                text = file.read(_READ_BYTES)
        except OSError:
            return
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        self.is_current = len(text) < _READ_BYTES
        counts: dict[str, float] = {}
        for line in whole.decode(errors="replace").splitlines():
            if (counted := _counted(line)) is not None:
                self.seconds, event, count = counted
                counts[event] = counts.get(event, 0.0) + count
        for event, count in counts.items():
            self.totals[event] = self.totals.get(event, 0.0) + count
        if counts:
            self.ratios = {(a, b): counts[a] / counts[b] for a, b in _RATIOS if a in counts and counts.get(b)}


def _counted(line: str) -> tuple[float, str, float] | None:
    """Return second, event and count of a line ``second;count;unit;event;…``, ``None`` where nothing was counted."""
    fields = line.split(";")
    if len(fields) < 4:
        return None
    try:
        second, count = (float(field.strip().replace(",", ".")) for field in fields[:2])
    except ValueError:  # <not supported>, <not counted>
        return None
    name, _, modifier = fields[3].partition(":")
    if "/" in name:  # cpu_core/instructions/: a processor with two kinds of cores has a line for each
        name, _, modifier = name.split("/", 1)[1].partition("/")
    if name not in _COUNTERS or ("u" in modifier and name in _OF_THE_KERNEL):
        return None
    return second, name, count


class PerfFamilies:
    """Metric families of what perf counts, a sample a run."""

    def __init__(self) -> None:
        self._counters = {
            event: CounterMetricFamily(f"bench_process_{name}", text, labels=["run_id"])
            for event, (name, text) in _COUNTERS.items()
        }
        self._ratios = {
            events: GaugeMetricFamily(f"bench_process_{name}", text, labels=["run_id"])
            for events, (name, text) in _RATIOS.items()
        }

    def all(self) -> Iterator[Metric]:
        """Yield the families that have a sample: most runs are not profiled."""
        for family in (*self._counters.values(), *self._ratios.values()):
            if family.samples:
                yield family

    def add(self, run_id: str, counters: PerfCounters, started_at: float | None) -> None:
        """Add what was counted by now, dated to the second that perf wrote it: rates are over what it counted in.

        Parameters
        ----------
        started_at
            When the run was released, Unix seconds; perf started then.
        """
        if counters.is_current and started_at is not None:
            self._add(run_id, counters, started_at + counters.seconds)

    def add_final(self, run_id: str, counters: PerfCounters) -> None:
        """Add what was counted in all of an ended run."""
        if counters.is_current:
            for event, total in counters.totals.items():
                self._counters[event].add_metric([run_id], total)

    def _add(self, run_id: str, counters: PerfCounters, at: float) -> None:
        for event, total in counters.totals.items():
            self._counters[event].add_metric([run_id], total, timestamp=at)
        for events, ratio in counters.ratios.items():
            self._ratios[events].add_metric([run_id], ratio, timestamp=at)
