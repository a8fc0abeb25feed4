"""Inventory of this host's GPUs and MIG instances."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hypergauge.core.errors import BadRequest, did_you_mean
from hypergauge.gpu.amd import list_amd
from hypergauge.gpu.devices import Gpu, MigInstance
from hypergauge.gpu.integrated import jetson_of, list_integrated
from hypergauge.gpu.intel import intel_gpus
from hypergauge.gpu.library import Nvml, as_text, load
from hypergauge.gpu.queries import Queries, known
from hypergauge.gpu.vendors import NVIDIA, VENDORS

__all__ = ["Inventory", "inventory", "list_gpu", "list_instances"]

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class Inventory:
    """GPUs of this host, and the `reason` where a GPU could not be listed.

    `driver` is the version of NVIDIA's driver, `cuda` the latest version of CUDA that it supports; ``None`` without one.
    """

    gpus: tuple[Gpu, ...] = ()
    reason: str | None = None
    driver: str | None = None
    cuda: str | None = None

    @property
    def vendors(self) -> tuple[str, ...]:
        """Names of the vendors of these GPUs, in the order of the table."""
        return tuple(name for name in VENDORS if any(gpu.vendor == name for gpu in self.gpus))

    def find(self, name: str) -> Gpu:
        """Return the GPU with the index or UUID `name`; a unique prefix of a UUID suffices.

        ``amd:0`` counts the GPUs of one vendor. A bare number counts NVIDIA's; without any, those of the only vendor.

        Raises
        ------
        BadRequest
            No GPU matches, or several do.
        """
        if len(exact := [gpu for gpu in self.gpus if name.lower() in map(str.lower, gpu.uuids)]) == 1:
            return exact[0]  # Intel's have colons, too
        vendor, colon, word = name.lower().rpartition(":")
        if colon and vendor not in VENDORS:
            raise BadRequest(f"device {name} has an unknown vendor {vendor!r}{did_you_mean(vendor, VENDORS)}")
        among = [gpu for gpu in self.gpus if vendor in ("", gpu.vendor)]
        if not word.isdecimal():
            found = _with_uuid(word, among)
            how = "it is a prefix of the UUIDs of"
        else:
            if not vendor and NVIDIA in self.vendors:
                among = [gpu for gpu in among if gpu.vendor == NVIDIA]
            found = [gpu for gpu in among if gpu.index == int(word)]
            how = "write the vendor too, for"
        if len(found) == 1:
            return found[0]
        if found:
            raise BadRequest(f"device {name} is ambiguous: {how} {self._listed(found)}")
        raise BadRequest(f"device {name} does not exist: this host has {self._summary(name)}")

    def word(self, gpu: Gpu) -> str:
        """Return the shortest name of a GPU in ``Devices``: ``0``, or ``amd:0`` where the number means another one."""
        main = NVIDIA if NVIDIA in self.vendors else None
        alone = self.vendors == (gpu.vendor,)
        return str(gpu.index) if alone or gpu.vendor == main else f"{gpu.vendor}:{gpu.index}"

    def _summary(self, name: str) -> str:
        if not self.gpus:
            return f"no GPU ({self.reason})" if self.reason else "no GPU"
        if ":" in name:
            words = [f"{gpu.vendor}:{gpu.index}" for gpu in self.gpus]
            return ", ".join(words) + did_you_mean(name, words, otherwise="")
        summary = self._listed(self.gpus)
        if name.isdecimal():
            return summary
        return summary + did_you_mean(name, [uuid for gpu in self.gpus for uuid in gpu.uuids])

    def _listed(self, gpus: Sequence[Gpu]) -> str:
        return f"{'GPU' if len(gpus) == 1 else 'GPUs'} {', '.join(map(self.word, gpus))}"


def _with_uuid(word: str, gpus: Sequence[Gpu]) -> list[Gpu]:
    """Return the GPUs with a UUID, or with a UUID that begins with it."""
    word = f"gpu-{word}" if _UUID.fullmatch(word) else word
    if exact := [gpu for gpu in gpus if word in map(str.lower, gpu.uuids)]:
        return exact
    if not re.fullmatch(r"gpu-[0-9a-f-]+", word):
        return []
    return [gpu for gpu in gpus if any(uuid.lower().startswith(word) for uuid in gpu.uuids)]


def inventory(
    simulate: str | None = None, home: Path | None = None, *, nvml: Nvml | None = None, root: Path = Path("/")
) -> Inventory:
    """List the GPUs of this host, with simulated ones in the place of NVIDIA's.

    Parameters
    ----------
    simulate, home, nvml
        See `hypergauge.gpu.load`, also for the errors.
    root
        Folder of ``proc``, ``sys`` and ``dev``.

    Returns
    -------
    Inventory
        Empty, with the reason, where no vendor's driver lists a GPU.
    """
    found = _nvidia(load(simulate, home) if nvml is None else nvml)
    amd, reasons = list_amd(root)
    integrated = list_integrated(root, beside_nvidia=bool(found.gpus))
    others = [*amd, *integrated, *(one.gpu for one in intel_gpus(root))]
    gpus = (*(jetson_of(gpu, root) for gpu in found.gpus), *others)
    # A vendor without GPUs has no driver, or only one for a processor's own GPU. NVML reads few of a Jetson's values.
    is_whole = any(gpu.vendor == "jetson" for gpu in gpus) or not found.driver
    why = [found.reason] if found.reason and not (gpus and is_whole) else []
    why += [] if gpus else reasons
    return Inventory(gpus, "; ".join(why) or None, found.driver, found.cuda)


def _nvidia(nvml: Nvml) -> Inventory:
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
    errors = (nvml.NVMLError, AttributeError)  # a binding may lack a function, too
    with contextlib.suppress(*errors):
        driver = as_text(nvml.nvmlSystemGetDriverVersion())
    with contextlib.suppress(*errors):
        number = int(nvml.nvmlSystemGetCudaDriverVersion_v2())  # 12040 is 12.4
        cuda = f"{number // 1000}.{number % 1000 // 10}"
    return driver, cuda


def list_gpu(nvml: Nvml, index: int, handle: object) -> Gpu:
    """Return one GPU as described by `nvml`, which is initialized.

    Only its UUID is needed: a driver may have no other answer, such as the memory of an integrated GPU.

    Raises
    ------
    NVMLError
        The GPU is lost, or has no UUID.
    """
    gpu = Queries(nvml, handle)
    mode = gpu.query("nvmlDeviceGetMigMode")
    mig = mode is not None and mode[0] == nvml.NVML_DEVICE_MIG_ENABLE
    memory = getattr(gpu.query("nvmlDeviceGetMemoryInfo"), "total", None)
    return Gpu(
        index,
        nvml.nvmlDeviceGetUUID(handle),
        as_text(gpu.query("nvmlDeviceGetName") or "NVIDIA GPU"),
        int(memory) if known(memory) and memory > 0 else None,
        tuple(instance for instance, _ in list_instances(nvml, handle)) if mig else (),
        simulated=getattr(nvml, "SIMULATED", False),
        mig_enabled=mig,
    )


def list_instances(nvml: Nvml, handle: object) -> Iterator[tuple[MigInstance, object]]:
    """Yield the MIG instances of a GPU in MIG mode, each with its handle as a MIG device.

    One without a name has no profile. One without an id or UUID cannot be named, and is left out.
    """
    gpu = Queries(nvml, handle)
    for number in range(gpu.query("nvmlDeviceGetMaxMigDeviceCount") or 0):
        try:
            device = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)
            found = MigInstance(nvml.nvmlDeviceGetGpuInstanceId(device), nvml.nvmlDeviceGetUUID(device), "")
        except nvml.NVMLError as error:  # an empty slot, or one emptied just now
            gpu.lacks(error)
            continue
        name = as_text(gpu.query("nvmlDeviceGetName", of=device) or "")  # "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
        yield replace(found, profile=name.rpartition("MIG ")[2] if "MIG " in name else ""), device
