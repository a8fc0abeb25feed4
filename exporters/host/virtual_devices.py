"""Virtual disks and network interfaces, by the kernel's ``/sys``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

__all__ = ["virtual_devices"]


def virtual_devices(folder: Path, names: Iterable[str]) -> frozenset[str]:
    """Return those of `names` beneath which there is no hardware of their own.

    A volume, an array, a partition, a bond, a bridge and a VLAN have none; neither has a function of a card that its
    hypervisor puts under an interface of the same card, as on Azure. Where no device has any, as in a container with an
    interface that its host made, nobody knows which counts: then there are none.

    Parameters
    ----------
    folder
        ``/sys/class/block`` or ``/sys/class/net``.
    """
    there = {name for name in names if name != "lo" and (folder / name).exists()}
    hardware = {name for name in there if (folder / name / "device").exists()}
    if not hardware:
        return frozenset()
    return frozenset(name for name in there if name not in hardware or (folder / name / "master" / "device").exists())
