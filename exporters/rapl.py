"""The exporter ``rapl``: energy of CPU packages and memory from powercap, with node_exporter's names.

Intel's and AMD's counters are both there. It differs from node_exporter in three things: a counter does not wrap around;
the second door to the same counters (``intel-rapl-mmio``) is left out, so that a sum over the series is the host's; and
the index is always that of the package, which node_exporter counts where a zone's name does not say it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, Metric

from hypergauge.exporters.serving.registry import ExporterOptions

__all__ = ["RaplExporter"]

# What zones are called: https://docs.kernel.org/power/powercap/powercap.html. A package of several dies has a zone for
# each of them, package-0-die-1. `psys` is the whole platform, the packages included.
_KINDS = ("package", "dram", "core", "uncore", "psys")
_MENDED_BY = "sudo chmod a+r /sys/class/powercap/*/energy_uj"


class RaplExporter:
    """Reads the energy counters of all zones that the kernel has; one that may not be read is left out.

    Parameters
    ----------
    options
        Nothing of them is needed.
    root
        Folder under which ``sys`` is read.
    """

    name = "rapl"

    def __init__(self, options: ExporterOptions, root: Path = Path("/")) -> None:  # noqa: ARG002
        self._zones = list(_zones(root))

    def check(self) -> str | None:
        """Return why there is nothing to read: no counters, or none that may be read."""
        if not self._zones:
            return "the kernel shows no energy counters in /sys/class/powercap (virtual machines have none)"
        denied = [zone for zone in self._zones if zone.denied()]
        if len(denied) == len(self._zones):
            return f"only root may read the energy counters: `{_MENDED_BY}` lets everybody, until the next boot"
        return None

    def collect(self) -> Iterator[Metric]:
        """Read every counter once.

        Raises
        ------
        OSError
            None of them can be read any more.
        """
        found = False
        for kind in _KINDS:
            family = CounterMetricFamily(
                f"node_rapl_{kind}_joules_total", f"Current RAPL {kind} value in joules.", labels=["index", "path"]
            )
            for zone in self._zones:
                if zone.kind == kind and (joules := zone.joules()) is not None:
                    family.add_metric([zone.index, zone.label], joules)
            if family.samples:
                found = True
                yield family
        if not found:
            raise OSError("no energy counter can be read any more")


class _Zone:
    """One energy counter."""

    def __init__(self, path: Path, kind: str, index: str, label: str) -> None:
        self.kind, self.index, self.label = kind, index, label
        self._counter = path / "energy_uj"
        self._wraps_at = int(_read(path / "max_energy_range_uj") or 0)
        self._last = self._wrapped = 0

    def denied(self) -> bool:
        """Return whether we may not read it."""
        try:
            self._counter.read_bytes()
        except PermissionError:
            return True
        except OSError:
            pass
        return False

    def joules(self) -> float | None:
        """Return what was used since the counter began, ``None`` where it cannot be read."""
        text = _read(self._counter)
        if not text:
            return None
        microjoules = int(text)
        if microjoules < self._last:
            self._wrapped += self._wraps_at
        self._last = microjoules
        return (self._wrapped + microjoules) / 1e6


def _zones(root: Path) -> Iterator[_Zone]:
    packages: dict[str, str] = {}
    # A package, intel-rapl:1, stands before its parts, intel-rapl:1:0.
    for path in sorted((root / "sys/class/powercap").glob("intel-rapl:*")):
        kind, _, index = _read(path / "name").partition("-")
        packages[path.name] = index = index or packages.get(path.name.rpartition(":")[0], "0")
        if kind in _KINDS:
            yield _Zone(path, kind, index, f"/{path.relative_to(root)}")


def _read(path: Path) -> str:
    """Return the file's text, empty where there is none or we may not read it."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
