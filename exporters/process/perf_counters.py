"""Counters of ``perf stat`` for a run, read from the file in the run's folder."""

from __future__ import annotations

from pathlib import Path

__all__ = ["PERF_HELPS", "PerfCounters"]

# Read at once. A second of events takes 500 bytes, so a reader that starts after a day catches up within a minute.
_READ_BYTES = 1 << 20

# By perf's name of the event: name and help text of the metric.
_COUNTERS = {
    "instructions": ("instructions_total", "Instructions executed by the run's processes."),
    "cycles": ("cycles_total", "Processor cycles spent on the run's processes."),
    "LLC-loads": ("cache_loads_total", "Loads of the run that reached the last-level cache."),
    "LLC-load-misses": ("cache_load_misses_total", "Loads of the run that missed the last-level cache."),
    "branches": ("branches_total", "Branch instructions executed by the run's processes."),
    "branch-misses": ("branch_misses_total", "Mispredicted branches of the run."),
    "context-switches": ("context_switches_total", "Context switches of the run's threads, voluntary or not."),
    "page-faults": ("page_faults_total", "Page faults of the run."),
}
_RATIOS = {
    ("instructions", "cycles"): ("instructions_per_cycle", "Instructions per cycle since the previous read."),
    ("LLC-load-misses", "LLC-loads"): ("cache_miss_ratio", "Share of loads that missed the last-level cache."),
    ("branch-misses", "branches"): ("branch_miss_ratio", "Share of mispredicted branches."),
}
# Events of the kernel. Restricted to user mode, as perf counts without privileges, they are always 0.
_KERNEL_EVENTS = frozenset({"context-switches"})

PERF_HELPS = dict([*_COUNTERS.values(), *_RATIOS.values()])


class PerfCounters:
    """Totals in one run's file.

    Attributes
    ----------
    totals, ratios
        By perf's names of the event, and of the two events.
    seconds
        Time of the newest counts, in seconds since perf started with the run.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._offset = path, 0
        self.totals: dict[str, float] = {}
        self.ratios: dict[tuple[str, str], float] = {}
        # Whether the whole file was read. Earlier totals would look like a fall after a restart of the exporter.
        self._current = False
        self.seconds = 0.0

    def live(self) -> dict[str, float]:
        """Return totals and latest ratios by metric; empty until the whole file was read."""
        ratios = {_RATIOS[events][0]: ratio for events, ratio in self.ratios.items()}
        return self.final() | ratios if self._current else {}

    def final(self) -> dict[str, float]:
        """Return totals by metric; empty until the whole file was read."""
        return {_COUNTERS[event][0]: total for event, total in self.totals.items()} if self._current else {}

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
    if "/" in name:  # cpu_core/instructions/: a hybrid processor has a line for each kind of core
        name, _, modifier = name.split("/", 1)[1].partition("/")
    if name not in _COUNTERS or ("u" in modifier and name in _KERNEL_EVENTS):
        return None
    return second, name, count
