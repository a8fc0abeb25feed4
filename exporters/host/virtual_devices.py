"""Virtual disks and network interfaces, by the kernel's ``/sys``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

__all__ = ["virtual_devices"]


def virtual_devices(folder: Path, names: Iterable[str]) -> frozenset[str]:
    """Return the devices among `names` without hardware of their own.

    Examples: a volume, an array, a partition, a bond, a bridge, a VLAN, and on Azure the SR-IOV function beneath an
    interface of the same card. Where no device has hardware, as in a container, the result is empty: the physical ones
    are not known.

    Parameters
    ----------
    folder
        ``/sys/class/block`` or ``/sys/class/net``.
    """
    present = {name for name in names if name != "lo" and (folder / name).exists()}
    hardware = {name for name in present if (folder / name / "device").exists()}
    if not hardware:
        return frozenset()
    return frozenset(name for name in present if name not in hardware or (folder / name / "master" / "device").exists())
