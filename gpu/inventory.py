"""Inventory of this host's GPUs and MIG instances."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hypergauge.core.errors import BadRequest, did_you_mean
from hypergauge.gpu.library import Nvml, as_text, load
from hypergauge.gpu.models import model_of

__all__ = ["Gpu", "Inventory", "MigInstance", "inventory", "list_gpu", "list_instances"]


@dataclass(frozen=True, slots=True)
class MigInstance:
    """A MIG instance: NVML's id of the GPU instance, its UUID (``MIG-…``) and its profile, such as ``3g.20gb``."""

    gpu_instance_id: int
    uuid: str
    profile: str


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU as NVML lists it; `index` is its rank in the order of the PCI bus.

    `mig_enabled` is whether MIG mode is on, whether or not there are instances.
    """

    index: int
    uuid: str
    name: str
    memory_bytes: int
    mig: tuple[MigInstance, ...] = ()
    simulated: bool = False
    mig_enabled: bool = False

    @property
    def mig_profiles(self) -> tuple[str, ...]:
        """MIG profiles of this model; empty without MIG, or for an unknown model."""
        model = model_of(self.name, self.memory_bytes)
        return tuple(profile.name for profile in model.profiles) if model else ()

    def describe(self) -> str:
        """Return the name, the MIG instances, and whether the GPU is simulated."""
        text = self.name
        if self.mig_enabled:
            instances = (f"{one.profile} ({one.gpu_instance_id})" for one in self.mig)
            text += f", MIG: {' '.join(instances) or 'no instances'}"
        return text + (", simulated" if self.simulated else "")


@dataclass(frozen=True, slots=True)
class Inventory:
    """GPUs of this host, and the `reason` where a GPU could not be listed.

    `driver` is the version of NVIDIA's driver, `cuda` the latest version of CUDA that it supports; ``None`` without one.
    """

    gpus: tuple[Gpu, ...] = ()
    reason: str | None = None
    driver: str | None = None
    cuda: str | None = None

    def find(self, name: str) -> Gpu:
        """Return the GPU with the index or UUID `name`; a unique prefix of a UUID suffices.

        Raises
        ------
        BadRequest
            No GPU matches, or several do.
        """
        if name.isdecimal():
            found = [gpu for gpu in self.gpus if gpu.index == int(name)]
        else:
            full = re.fullmatch(r"gpu-[0-9a-f-]+", name.lower())
            found = [gpu for gpu in self.gpus if full and gpu.uuid.lower().startswith(name.lower())]
        if len(found) == 1:
            return found[0]
        if found:
            raise BadRequest(f"device {name} is ambiguous: it is a prefix of the UUIDs of GPUs {_indices(found)}")
        raise BadRequest(f"device {name} does not exist: this host has {self._summary(name)}")

    def _summary(self, name: str) -> str:
        if not self.gpus:
            return f"no GPU ({self.reason})" if self.reason else "no GPU"
        summary = f"{'GPU' if len(self.gpus) == 1 else 'GPUs'} {_indices(self.gpus)}"
        if name.lower().startswith("gpu-"):
            return summary + did_you_mean(name, [gpu.uuid for gpu in self.gpus])
        return summary


def inventory(simulate: str | None = None, home: Path | None = None, *, nvml: Nvml | None = None) -> Inventory:
    """List the GPUs of this host, or simulated ones; see `hypergauge.gpu.load` for parameters and errors.

    Returns
    -------
    Inventory
        Empty, with the reason, without an NVIDIA driver.
    """
    nvml = load(simulate, home) if nvml is None else nvml
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return Inventory(reason=str(error))
    gpus, reasons = [], []
    driver, cuda = _versions(nvml)
    try:
        for index in range(nvml.nvmlDeviceGetCount()):
            try:
                gpus.append(list_gpu(nvml, index, nvml.nvmlDeviceGetHandleByIndex(index)))
            except nvml.NVMLError as error:  # it fell off the bus; the others work
                reasons.append(f"GPU {index}: {error}")
    except nvml.NVMLError as error:
        reasons.append(str(error))
    finally:
        nvml.nvmlShutdown()
    return Inventory(tuple(gpus), "; ".join(reasons) or None, driver, cuda)


def _versions(nvml: Nvml) -> tuple[str | None, str | None]:
    """Return the versions of driver and CUDA, ``None`` where the driver does not report them."""
    driver = cuda = None
    with contextlib.suppress(nvml.NVMLError):
        driver = as_text(nvml.nvmlSystemGetDriverVersion())
        number = int(nvml.nvmlSystemGetCudaDriverVersion_v2())  # 12040 is 12.4
        cuda = f"{number // 1000}.{number % 1000 // 10}"
    return driver, cuda


def list_gpu(nvml: Nvml, index: int, handle: object) -> Gpu:
    """Return one GPU as described by `nvml`, which is initialized."""
    try:
        enabled, _ = nvml.nvmlDeviceGetMigMode(handle)
    except nvml.NVMLError_NotSupported:
        enabled = nvml.NVML_DEVICE_MIG_DISABLE
    mig = enabled == nvml.NVML_DEVICE_MIG_ENABLE
    return Gpu(
        index,
        nvml.nvmlDeviceGetUUID(handle),
        nvml.nvmlDeviceGetName(handle),
        int(nvml.nvmlDeviceGetMemoryInfo(handle).total),
        tuple(instance for instance, _ in list_instances(nvml, handle)) if mig else (),
        simulated=getattr(nvml, "SIMULATED", False),
        mig_enabled=mig,
    )


def list_instances(nvml: Nvml, handle: object) -> Iterator[tuple[MigInstance, object]]:
    """Yield the MIG instances of a GPU in MIG mode, each with its handle as a MIG device."""
    for number in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            device = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)
            profile = nvml.nvmlDeviceGetName(device).rpartition("MIG ")[2]  # "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
            found = MigInstance(nvml.nvmlDeviceGetGpuInstanceId(device), nvml.nvmlDeviceGetUUID(device), profile)
        except (nvml.NVMLError_NotFound, nvml.NVMLError_InvalidArgument):  # an empty slot, or one emptied just now
            continue
        yield found, device


def _indices(gpus: list[Gpu] | tuple[Gpu, ...]) -> str:
    return ", ".join(str(gpu.index) for gpu in gpus)
