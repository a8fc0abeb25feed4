"""GPUs that are part of a machine's chip: one each in a Jetson and in Apple silicon."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from hypergauge.core.system.kernel_file import read_file
from hypergauge.gpu.devices import Gpu

__all__ = ["integrated_uuid", "is_jetson", "jetson_of", "list_integrated"]


def integrated_uuid(vendor: str) -> str:
    """Return the identity of this machine's integrated GPU, which has no UUID: that of its host."""
    return f"{vendor.upper()}-{platform.node()}"


def is_jetson(root: Path = Path("/")) -> bool:
    """Return whether this machine is a Jetson; `root` has the folder ``proc``."""
    return "nvidia,tegra" in read_file(root / "proc/device-tree/compatible")


def list_integrated(root: Path = Path("/"), *, beside_nvidia: bool = False) -> Iterator[Gpu]:
    """Yield this machine's integrated GPU.

    Parameters
    ----------
    beside_nvidia
        Whether NVML lists GPUs. On a Jetson these include the integrated one, or replace it.
    """
    if is_jetson(root) and not beside_nvidia:
        yield _gpu("jetson", read_file(root / "proc/device-tree/model").strip("\0") or "Jetson")
    # `macmon` measures only Apple silicon.
    if (platform.system(), platform.machine()) == ("Darwin", "arm64") or shutil.which("macmon"):
        yield _gpu("apple", "Apple silicon")


def jetson_of(gpu: Gpu, root: Path = Path("/")) -> Gpu:
    """Return a GPU that NVML lists, as a Jetson's own where NVML knows no memory of it: that is the host's.

    Its UUID stays, so that it has the values of both exporters. Its number makes it visible, as on all boards.
    """
    if gpu.memory_bytes is not None or gpu.mig_enabled or not is_jetson(root):
        return gpu
    return replace(gpu, memory_bytes=_host_memory(), vendor="jetson", runtime_id=str(gpu.index))


def _gpu(vendor: str, name: str) -> Gpu:
    return Gpu(0, integrated_uuid(vendor), name, _host_memory(), vendor=vendor, runtime_id="0")


def _host_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
