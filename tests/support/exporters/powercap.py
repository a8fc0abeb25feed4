"""Folder tree of energy counters, as the kernel lays out `/sys/class/powercap`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["POWERCAP", "WRAPS_AT", "Counter", "zone"]

POWERCAP = "/sys/class/powercap"
# Microjoules after which a counter of a Xeon starts over.
WRAPS_AT = 262143328850


def zone(root: Path, folder: str, name: str, microjoules: int, wraps_at: int = WRAPS_AT) -> Path:
    """Create a zone, ``intel-rapl:0:0``, and return its folder."""
    path = root / POWERCAP[1:] / folder
    path.mkdir(parents=True)
    (path / "name").write_text(f"{name}\n")
    (path / "max_energy_range_uj").write_text(f"{wraps_at}\n")
    (path / "energy_uj").write_text(f"{microjoules}\n")
    return path


@dataclass
class Counter:
    """Counter of a zone that a test advances; it starts over as the hardware does.

    Attributes
    ----------
    joules
        Energy that was added.
    """

    path: Path
    joules: float = 0.0
    _microjoules: int = field(init=False)

    def __post_init__(self) -> None:
        self._microjoules = int((self.path / "energy_uj").read_text())
        self._wraps_at = int((self.path / "max_energy_range_uj").read_text())

    def add(self, joules: float) -> None:
        """Add energy, in whole microjoules."""
        added = round(joules * 1e6)
        self.joules += added / 1e6
        self._microjoules = (self._microjoules + added) % self._wraps_at
        # Replaced as a whole: a reader never sees an empty file.
        new = self.path / ".energy_uj"
        new.write_text(f"{self._microjoules}\n")
        new.replace(self.path / "energy_uj")
