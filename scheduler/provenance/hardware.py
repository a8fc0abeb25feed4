"""Hardware of a host: system, processor, memory, driver and GPUs."""

from __future__ import annotations

import contextlib
import os
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil

from hypergauge.gpu import Inventory

__all__ = ["hardware"]


def hardware(inventory: Inventory, root: Path = Path("/")) -> dict[str, Any]:
    """Return the hardware and system of this host; unknown values are left out.

    Parameters
    ----------
    inventory
        GPUs of the host.
    root
        Folder that contains ``proc`` and ``etc``.
    """
    found = {
        "host": platform.node(),
        "system": _system(root),
        "kernel": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "cpu": _cpu(root),
        "cores": psutil.cpu_count(logical=False),
        "threads": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "driver": inventory.driver,
        "cuda": inventory.cuda,
        "gpus": [asdict(gpu) for gpu in inventory.gpus],
    }
    return {key: value for key, value in found.items() if value is not None}


def _system(root: Path) -> str | None:
    return _value(root / "etc/os-release", "PRETTY_NAME", "=")


def _cpu(root: Path) -> str | None:
    for name in ("model name", "Model", "cpu model"):  # x86; many Arm boards; MIPS
        if found := _value(root / "proc/cpuinfo", name, ":"):
            return found
    return None


def _value(path: Path, key: str, separator: str) -> str | None:
    with contextlib.suppress(OSError), path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            name, found, value = line.partition(separator)
            if found and name.strip() == key:
                return value.strip().strip('"')
    return None
