"""Inventory of Intel's discrete GPUs, from the kernel's files."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hypergauge.core.system.kernel_file import read_file
from hypergauge.gpu.devices import Gpu

__all__ = ["DRIVERS", "IntelGpu", "intel_gpus"]

DRIVERS = ("xe", "i915")
_CARD = re.compile(r"card\d+")
_VENDOR = "0x8086"
# Address of a processor's own GPU, which shares its memory and power.
_PROCESSORS = "0000:00:02.0"


@dataclass(frozen=True, slots=True)
class IntelGpu:
    """GPU with the folder of its card, its address on the PCI bus and its driver."""

    gpu: Gpu
    card: Path
    address: str
    driver: str


def intel_gpus(root: Path = Path("/")) -> Iterator[IntelGpu]:
    """Yield Intel's discrete GPUs in the order of the PCI bus; `root` has the folder ``sys``."""
    cards = [card for card in (root / "sys/class/drm").glob("card*") if _CARD.fullmatch(card.name)]
    found = sorted((address, card) for card in cards if (address := _address(card)))
    number = index = 0
    for address, card in found:
        device = card / "device"
        # Level Zero numbers the tiles of all GPUs, those of processors too.
        tiles = len(list(device.glob("tile[0-9]*"))) or 1
        numbers = ",".join(str(number + tile) for tile in range(tiles))
        number += tiles
        if address == _PROCESSORS:
            continue
        # Numbers in a container would count its own render nodes alone, so it has all of them.
        gpu = Gpu(
            index,
            f"INTEL-{address}-{platform.node()}",
            f"Intel GPU {read_file(device / 'device')}",
            0,
            vendor="intel",
            runtime_id=numbers,
            files=("/dev/dri",),
        )
        yield IntelGpu(gpu, card, address, _driver(card))
        index += 1


def _address(card: Path) -> str:
    """Return the PCI address of a card of Intel's drivers, empty for another one."""
    if read_file(card / "device/vendor") != _VENDOR or _driver(card) not in DRIVERS:
        return ""
    return next((word for key, word in _uevent(card) if key == "PCI_SLOT_NAME"), "")


def _driver(card: Path) -> str:
    return next((word for key, word in _uevent(card) if key == "DRIVER"), "")


def _uevent(card: Path) -> list[tuple[str, str]]:
    lines = read_file(card / "device/uevent").splitlines()
    return [(key, value) for key, _, value in (line.partition("=") for line in lines)]
