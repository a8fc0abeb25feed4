"""Virtual disks and network interfaces, by the kernel's ``/sys``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from hypergauge.core.system.kernel_file import read_file

__all__ = ["virtual_devices"]

# Names of functions' ports: https://docs.kernel.org/networking/devlink/devlink-port.html. A physical port is `p0`.
_FUNCTION = re.compile(r"(c\d+)?pf\d+((vf|sf)\d+)?")


def virtual_devices(folder: Path, names: Iterable[str]) -> frozenset[str]:
    """Return the devices among `names` without hardware of their own.

    Examples: a volume, an array, a partition, a bond, a bridge, a VLAN, on Azure the SR-IOV function beneath an interface
    of the same card, and the representor of a function in a card's switch, whose traffic the card's port counts. Where
    no device has hardware, as in a container, the result is empty: the physical ones are not known.

    Parameters
    ----------
    folder
        ``/sys/class/block`` or ``/sys/class/net``.
    """
    present = {name for name in names if name != "lo" and (folder / name).exists()}
    hardware = {name for name in present if (folder / name / "device").exists()}
    if not hardware:
        return frozenset()
    return frozenset(name for name in present if name not in hardware or _counted_elsewhere(folder / name))


def _counted_elsewhere(device: Path) -> bool:
    return (device / "master" / "device").exists() or _represents_function(device)


@cache  # for some drivers each read takes the lock of all interfaces
def _represents_function(device: Path) -> bool:
    return _FUNCTION.fullmatch(read_file(device / "phys_port_name")) is not None
