"""Inventory of AMD's GPUs, through ROCm's library `amdsmi`."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from hypergauge.gpu.devices import Gpu

__all__ = ["AmdGpu", "AmdSmi", "driver_problem", "list_amd", "load_amdsmi", "opened_gpus", "query"]

# A module or object with the functions, enumerations and errors of `amdsmi`.
AmdSmi = Any

_MIB = 2**20
_DRIVER = "dev/kfd"


@dataclass(frozen=True, slots=True)
class AmdGpu:
    """GPU with its handle in the library, and the version of its driver."""

    handle: Any
    gpu: Gpu
    driver: str


def load_amdsmi() -> AmdSmi:
    """Return the library, not initialized. Its import can raise anything."""
    return import_module("amdsmi")


def query(smi: AmdSmi, function: str, *arguments: Any) -> Any:
    """Return the library's answer, ``None`` where the GPU or the library does not support the function."""
    try:
        return getattr(smi, f"amdsmi_{function}")(*arguments)
    except (smi.AmdSmiException, AttributeError):
        return None


def opened_gpus(smi: AmdSmi) -> Iterator[AmdGpu]:
    """Yield the GPUs of this host in the order of the library, which is initialized."""
    handles = list(smi.amdsmi_get_processor_handles())
    numbers = [query(smi, "get_gpu_enumeration_info", handle) or {} for handle in handles]
    # Older libraries repeat the UUID of a partitioned GPU.
    repeated = Counter(_known(one.get("hip_uuid")) for one in numbers)
    for index, (handle, found) in enumerate(zip(handles, numbers, strict=True)):
        if repeated[_known(found.get("hip_uuid"))] > 1:
            found = {**found, "hip_uuid": None}
        asic = query(smi, "get_gpu_asic_info", handle) or {}
        driver = query(smi, "get_gpu_driver_info", handle) or {}
        yield AmdGpu(
            handle, _gpu(smi, index, handle, found, asic.get("market_name", "")), driver.get("driver_version", "")
        )


def list_amd(root: Path = Path("/")) -> tuple[list[Gpu], list[str]]:
    """Return AMD's GPUs of this host, and the reason where it has a driver and no GPU can be listed."""
    try:
        smi = load_amdsmi()
        smi.amdsmi_init()
    except Exception as error:  # noqa: BLE001 - the import can raise anything, and the errors are the library's own
        return [], [driver_problem(error)] if (root / _DRIVER).exists() else []
    try:
        return [one.gpu for one in opened_gpus(smi)], []
    except smi.AmdSmiException as error:
        return [], [driver_problem(error)]
    finally:
        query(smi, "shut_down")


def driver_problem(error: Exception) -> str:
    """Return why AMD's library cannot be used."""
    if isinstance(error, ModuleNotFoundError):
        return "the Python package amdsmi is not installed; it is part of ROCm: `pip install amdsmi`"
    return f"AMD's library does not work here: {' '.join(str(error).split())}"


def _gpu(smi: AmdSmi, index: int, handle: Any, numbers: Mapping[str, Any], name: str) -> Gpu:
    memory = query(smi, "get_gpu_vram_usage", handle) or {}
    total, render, hip = map(_number, (memory.get("vram_total"), numbers.get("drm_render"), numbers.get("hip_id")))
    rocm_uuid = _known(numbers.get("hip_uuid"))
    # HIP's numbers follow the driver's topology, those of the library the PCI bus.
    number = index if hip is None else hip
    # In a container with some of the render nodes, numbers would count these alone; UUIDs are the same everywhere.
    node = f"/dev/dri/renderD{render}" if rocm_uuid and render is not None else "/dev/dri"
    return Gpu(
        index,
        _uuid(query(smi, "get_gpu_device_uuid", handle), index),
        name,
        (total or 0) * _MIB,
        vendor="amd",
        runtime_id=rocm_uuid or str(number),
        files=("/dev/kfd", node),
    )


def _number(value: Any) -> int | None:
    """Return a number, ``None`` for ``N/A`` and the highest number of 32 bits, which stand for none."""
    return value if isinstance(value, int) and value < 2**32 - 1 else None


def _uuid(given: Any, index: int) -> str:
    """Return the UUID of a GPU in the form of the database; by host and number where the library has none."""
    uuid = _known(given)
    return f"GPU-{uuid.lower()}" if uuid else f"AMD-{index}-{platform.node()}"


def _known(uuid: Any) -> str:
    """Return a UUID, empty for ``N/A``, ``GPU-XX`` and zeros, which stand for none."""
    text = str(uuid or "")
    body = text.removeprefix("GPU-").replace("-", "")
    return text if len(body) >= 16 and body.strip("0") else ""
