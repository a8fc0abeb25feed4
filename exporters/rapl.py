"""The exporter ``rapl``: energy of CPU packages and memory from powercap, with node_exporter's names.

It reads Intel's and AMD's counters. Differences to node_exporter: a counter does not wrap around, and continues where the
hardware's starts over; the second interface to the same counters (``intel-rapl-mmio``) is left out, so that a sum over the
series is the host's; the label ``index`` is always that of the package.

The energy of packages and memory is also split among the host's runs, see `hypergauge.exporters.energy.split`. Nothing
counts twice: a package includes its zones ``core`` and ``uncore``, its memory is a zone of its own, and ``psys`` includes
packages, so that it is not split.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from prometheus_client.core import Metric

from hypergauge.core.system.kernel_file import read_file
from hypergauge.exporters.energy.run_energy import CpuReader, RunEnergy, energy_helps
from hypergauge.exporters.serving.families import Families
from hypergauge.exporters.serving.registry import ExporterOptions

__all__ = ["RaplExporter"]

# Names of zones: https://docs.kernel.org/power/powercap/powercap.html. A package of several dies has a zone for each,
# package-0-die-1. `psys` is the whole platform, including the packages.
_HELPS = {
    f"node_rapl_{kind}_joules_total": f"Current RAPL {kind} value in joules."
    for kind in ("package", "dram", "core", "uncore", "psys")
}
# Kinds of zones whose energy is split among runs.
_SPLIT = ("package", "dram")
_RUN_HELPS = energy_helps("bench_rapl", "the CPU packages or their memory")
# Above the power of any package, with peaks; a wrap at this power is none.
_MOST_WATTS = 1000.0
# Reading a counter and the clock is not one moment.
_SHORTEST_SECONDS = 2.0
_REMEDY = "sudo chmod a+r /sys/class/powercap/*/energy_uj"


class RaplExporter:
    """Exporter of the energy counters of all zones, and of the share of each run.

    It leaves out a zone that it may not read, and the shares of runs unless it reads all zones of that kind.

    Parameters
    ----------
    root
        Folder of ``sys``.
    cpu
        Replacement for the reader of CPU times.
    monotonic
        Clock in seconds. It stops while the host is suspended, as the counters do.
    """

    name = "rapl"

    def __init__(
        self,
        options: ExporterOptions,
        root: Path = Path("/"),
        cpu: CpuReader | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._zones = list(_zones(root))
        self._monotonic = monotonic
        self._runs = RunEnergy(options, "bench_rapl", "domain", cpu)

    def check(self) -> str | None:
        """Return the reason why no counter can be read, ``None`` where one can."""
        if not self._zones:
            return "the kernel shows no energy counters in /sys/class/powercap (virtual machines have none)"
        if all(zone.denied() for zone in self._zones):
            return f"only root may read the energy counters: `{_REMEDY}` permits all users, until the next boot"
        return None

    def collect(self) -> Iterable[Metric]:
        """Read every counter once.

        Raises
        ------
        OSError
            No counter can be read any more.
        """
        read = [(zone, zone.joules(self._monotonic())) for zone in self._zones]
        if all(joules is None for _, joules in read):
            raise OSError("no energy counter can be read any more")
        families = Families({**_HELPS, **_RUN_HELPS})
        for zone, joules in read:
            families.add(zone.metric, {"index": zone.index, "path": zone.label}, joules)
        for measurement in self._runs.update({kind: _whole(read, kind) for kind in _SPLIT}):
            families.add(*measurement)
        return families


class _Zone:
    """One energy counter."""

    def __init__(self, path: Path, metric: str, kind: str, index: str, label: str) -> None:
        self.metric, self.index, self.label, self.kind = metric, index, label, kind
        self._counter = path / "energy_uj"
        self._wraps_at = int(read_file(path / "max_energy_range_uj") or 0)
        self._total = self._last = 0
        self._read_at = -math.inf

    def denied(self) -> bool:
        """Return whether this user may not read it."""
        try:
            self._counter.read_bytes()
        except PermissionError:
            return True
        except OSError:
            pass
        return False

    def joules(self, now: float) -> float | None:
        """Return the energy since the counter began, ``None`` where it cannot be read; it never falls.

        Parameters
        ----------
        now
            Monotonic time in seconds.
        """
        text = read_file(self._counter)
        if not text:
            return None
        microjoules = int(text)
        self._total += self._increase(microjoules, now - self._read_at)
        self._last, self._read_at = microjoules, now
        return self._total / 1e6

    def _increase(self, microjoules: int, seconds: float) -> int:
        """Return the increase since the last reading, `seconds` ago.

        A value that has fallen is a wrap if its power is that of a package. Else the counter has restarted at 0, as after a
        suspension or a reload of the driver, or its value is of no use: then it continues from here.
        """
        most = _MOST_WATTS * max(seconds, _SHORTEST_SECONDS) * 1e6
        increases = microjoules - self._last, microjoules - self._last + self._wraps_at, microjoules
        if increases[0] >= 0:
            return increases[0]
        return next((increase for increase in increases[1:] if 0 <= increase <= most), 0)


def _whole(read: Sequence[tuple[_Zone, float | None]], kind: str) -> float | None:
    """Return the energy of all zones of a kind; ``None`` without such a zone, or where one cannot be read."""
    found = [joules for zone, joules in read if zone.kind == kind]
    known = [joules for joules in found if joules is not None]
    return sum(known) if known and len(known) == len(found) else None


def _zones(root: Path) -> Iterator[_Zone]:
    packages: dict[str, str] = {}
    # A package, intel-rapl:1, precedes its parts, intel-rapl:1:0.
    for path in sorted((root / "sys/class/powercap").glob("intel-rapl:*")):
        kind, _, index = read_file(path / "name").partition("-")
        packages[path.name] = index = index or packages.get(path.name.rpartition(":")[0], "0")
        if (metric := f"node_rapl_{kind}_joules_total") in _HELPS:
            yield _Zone(path, metric, kind, index, f"/{path.relative_to(root)}")
