"""GPUs from the output of `nvidia-smi -q -x`, for `tests.support.fakes.nvml_double`."""

from __future__ import annotations

import itertools
import uuid
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pynvml

__all__ = ["MIB", "Card", "Handle", "Process", "Slot", "read_log"]

MIB = 2**20
_DOCUMENTS = Path(__file__).parents[2] / "data" / "nvidia-smi"
_SM_PER_SLICE = {"Ampere": 14, "Hopper": 16}
_new_uuids = itertools.count(1)


@dataclass(frozen=True)
class Handle:
    """NVML's handle of a GPU or MIG device, valid until NVML is shut down."""

    index: int
    session: int
    mig: str | None = None


@dataclass
class Process:
    """Process on a GPU; `kind` as in nvidia-smi, a combination of C (compute), G (graphics) and M (MPS)."""

    pid: int
    kind: str = "C"
    memory: int | None = 100 * MIB
    gpu_instance_id: int = 2**32 - 1


@dataclass
class Slot:
    """MIG device: its GPU instance, profile, and MiB total, reserved, used and free."""

    gpu_instance_id: int
    profile: str
    memory: tuple[int, int, int, int] = (9856, 0, 12, 9844)
    uuid: str = field(default_factory=lambda: f"MIG-{uuid.UUID(int=next(_new_uuids))}")


@dataclass
class Card:
    """GPU, with the state that its document lacks.

    Attributes
    ----------
    lost
        Error of every call while set.
    energy
        Millijoules, ``None`` where unsupported.
    counters
        By field id.
    gpm
        Per cent and MiB/s by GPU instance (``None``: the whole GPU) and metric; ``None`` without GPM.
    utilization
        Samples: pid, Unix microseconds, per cent. ``None`` where unsupported.
    buffers
        Samples by NVML's number of a buffer: Unix microseconds (0: padding), and per cent or milliwatts. ``None`` where
        unsupported.
    no_samples
        NVML's code for no new samples.
    xids
        XID errors not yet reported, ``None`` where unsupported.
    root
        Whether the caller may see the processes of all MIG instances.
    """

    element: ET.Element
    mig: bool
    slots: list[Slot]
    processes: list[Process]
    gpm: dict[int | None, dict[int, float]] | None
    lost: type[pynvml.NVMLError] | None = None
    energy: int | None = 1_000_000
    counters: dict[int, int] = field(default_factory=dict)
    utilization: list[tuple[int, int, int]] | None = field(default_factory=list)
    buffers: dict[int, list[tuple[int, int]]] | None = None
    no_samples: int = pynvml.NVML_ERROR_NOT_FOUND
    xids: list[int] | None = field(default_factory=list)
    root: bool = True

    def text(self, *paths: str) -> str:
        """Return the element's text at the first existing one of `paths`."""
        found = next((text for path in paths if (text := self.element.findtext(path)) is not None), "N/A").strip()
        if found == "N/A":
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return found

    def number(self, *paths: str) -> Any:
        """Return the number before the unit."""
        return float(self.text(*paths).split()[0])

    def memory(self) -> tuple[int, int, int, int]:
        """Return MiB total, reserved, used and free."""
        total, reserved, used, free = _memory(self.element)
        return total, reserved, used, free


def read_log(name: str) -> tuple[str, Card]:
    """Return driver version and GPU of a file in tests/data/nvidia-smi."""
    root = ET.fromstring((_DOCUMENTS / f"{name}.xml").read_text())
    element = root.find("gpu")
    assert element is not None
    architecture = element.findtext("product_architecture", "")
    card = Card(
        element,
        element.findtext("mig_mode/current_mig") == "Enabled",
        [_slot(device, _SM_PER_SLICE[architecture]) for device in element.iterfind("mig_devices/mig_device")],
        [_process(one) for one in element.iterfind("processes/process_info")],
        {} if architecture == "Hopper" else None,
    )
    return root.findtext("driver_version", ""), card


def _slot(device: ET.Element, sm_per_slice: int) -> Slot:
    total, reserved, used, free = _memory(device)
    slices = round(int(device.findtext("device_attributes/shared/multiprocessor_count", "")) / sm_per_slice)
    profile = f"{slices}g.{-(-total // 1024)}gb"
    return Slot(int(device.findtext("gpu_instance_id", "")), profile, (total, reserved, used, free))


def _process(one: ET.Element) -> Process:
    memory = int(one.findtext("used_memory", "").split()[0]) * MIB
    return Process(int(one.findtext("pid", "")), one.findtext("type", ""), memory)


def _memory(element: ET.Element) -> list[int]:
    names = ("total", "reserved", "used", "free")
    return [int(element.findtext(f"fb_memory_usage/{name}", "").split()[0]) for name in names]
