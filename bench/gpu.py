"""The GPUs of this host, real ones through NVML or simulated ones: the one module that knows NVML."""

from __future__ import annotations

import itertools
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bench.errors import BadRequest, did_you_mean

__all__ = ["Gpu", "Inventory", "MigInstance", "inventory"]

GIB = 2**30


@dataclass(frozen=True, slots=True)
class _Model:
    """What NVIDIA's data sheets and MIG user guide say of one model; `compute_slices` is 0 where there is no MIG."""

    name: str
    memory_gib: int
    profiles: tuple[str, ...] = ()
    compute_slices: int = 0
    memory_slices: int = 0


def _model(name: str, memory_gib: int, profiles: str = "", slices: tuple[int, int] = (7, 8)) -> _Model:
    compute, memory = slices if profiles else (0, 0)
    return _Model(name, memory_gib, tuple(profiles.split()), compute, memory)


_MIG_80GB = "1g.10gb 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb"
_MODELS = {
    "A100": _model("NVIDIA A100-SXM4-40GB", 40, "1g.5gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb"),
    "A100-80GB": _model("NVIDIA A100-SXM4-80GB", 80, _MIG_80GB),
    "A30": _model("NVIDIA A30", 24, "1g.6gb 2g.12gb 4g.24gb", slices=(4, 4)),
    "H100": _model("NVIDIA H100 80GB HBM3", 80, _MIG_80GB),
    "H200": _model("NVIDIA H200", 141, "1g.18gb 1g.35gb 2g.35gb 3g.71gb 4g.71gb 7g.141gb"),
    "L4": _model("NVIDIA L4", 24),
    "RTX4090": _model("NVIDIA GeForce RTX 4090", 24),
    "T4": _model("Tesla T4", 16),
}

_GROUP = re.compile(r"([0-9]{1,3})x([^:]+)(?::(.+))?")
_MIG_GROUP = re.compile(r"([0-9]{1,3})x(.+)")
# The ids that the driver gives to the first instance of so many compute slices; later ones count on from there.
_FIRST_INSTANCE_ID = {7: 0, 4: 1, 3: 1, 2: 3, 1: 7}


@dataclass(frozen=True, slots=True)
class MigInstance:
    """A MIG instance: NVML's id of the GPU instance, its UUID (``MIG-…``) and its profile, such as ``3g.20gb``."""

    gpu_instance_id: int
    uuid: str
    profile: str


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU as NVML names it; `index` counts in the order of the PCI bus."""

    index: int
    uuid: str
    name: str
    memory_bytes: int
    mig: tuple[MigInstance, ...] = ()
    simulated: bool = False

    @property
    def mig_profiles(self) -> tuple[str, ...]:
        """The MIG profiles that this model has; empty where it has none, or none that are known here."""
        for key, model in _MODELS.items():
            # A driver keeps up to a GiB for itself; models of one name are further apart than 4 GiB.
            same_memory = abs(self.memory_bytes / GIB - model.memory_gib) < 4
            if same_memory and re.search(rf"\b{key.split('-')[0]}\b", self.name):
                return model.profiles
        return ()


@dataclass(frozen=True, slots=True)
class Inventory:
    """The GPUs of this host and, where something could not be seen, the `reason`."""

    gpus: tuple[Gpu, ...] = ()
    reason: str | None = None

    def find(self, word: str) -> Gpu:
        """Return the GPU with the index or UUID `word`; the beginning of a UUID will do where it is the only one.

        Raises
        ------
        BadRequest
            No GPU has it, or several have.
        """
        if word.isdecimal():
            found = [gpu for gpu in self.gpus if gpu.index == int(word)]
        else:
            full = re.fullmatch(r"gpu-[0-9a-f-]+", word.lower())
            found = [gpu for gpu in self.gpus if full and gpu.uuid.lower().startswith(word.lower())]
        if len(found) == 1:
            return found[0]
        if found:
            raise BadRequest(f"device {word} is ambiguous: GPUs {_indices(found)} have UUIDs that begin so")
        raise BadRequest(f"device {word} does not exist: this host has {self._what_there_is(word)}")

    def _what_there_is(self, word: str) -> str:
        if not self.gpus:
            return f"no GPU ({self.reason})" if self.reason else "no GPU"
        there = f"{'GPU' if len(self.gpus) == 1 else 'GPUs'} {_indices(self.gpus)}"
        if word.lower().startswith("gpu-"):
            return there + did_you_mean(word, [gpu.uuid for gpu in self.gpus])
        return there


def inventory(simulate: str | None = None) -> Inventory:
    """List the GPUs of this host, or those of a specification.

    Parameters
    ----------
    simulate
        Simulated GPUs instead of real ones: ``COUNTxMODEL[:COUNTxPROFILE[+COUNTxPROFILE]]``, comma-joined, such as
        ``2xH100,4xA100:7x1g.5gb``. Equal specifications give equal UUIDs.

    Returns
    -------
    Inventory
        Empty, with the reason, where there is no NVIDIA driver.

    Raises
    ------
    BadRequest
        The specification cannot be read, or names what no GPU is.
    """
    if simulate:
        return Inventory(tuple(_simulated(simulate)))
    return _from_nvml()


def _indices(gpus: list[Gpu] | tuple[Gpu, ...]) -> str:
    return ", ".join(str(gpu.index) for gpu in gpus)


def _simulated(specification: str) -> Iterator[Gpu]:
    indices = itertools.count()
    for group in specification.split(","):
        match = _GROUP.fullmatch(group.strip())
        if not match or not int(match[1]):
            raise BadRequest(
                f"{group.strip()!r} simulates nothing: write COUNTxMODEL, such as 2xH100 or 4xA100:7x1g.5gb"
            )
        key = match[2].upper()
        if key not in _MODELS:
            raise BadRequest(f"there is no GPU model {match[2]!r} to simulate{did_you_mean(match[2], _MODELS)}")
        model = _MODELS[key]
        profiles = list(_simulated_profiles(key, model, match[3])) if match[3] else []
        for index in itertools.islice(indices, int(match[1])):
            seed = f"{index}/{key}"
            mig = tuple(_instances(seed, profiles))
            yield Gpu(index, f"GPU-{_uuid(seed)}", model.name, model.memory_gib * GIB, mig, simulated=True)


def _simulated_profiles(key: str, model: _Model, text: str) -> Iterator[str]:
    compute = memory = 0
    for group in text.split("+"):
        match = _MIG_GROUP.fullmatch(group.strip())
        if not match or not int(match[1]):
            raise BadRequest(f"{group.strip()!r} is no set of MIG instances: write COUNTxPROFILE, such as 7x1g.5gb")
        count, profile = int(match[1]), match[2].lower()
        if profile not in model.profiles:
            choices = did_you_mean(profile, model.profiles) or ", which has no MIG"
            raise BadRequest(f"there is no MIG profile {profile!r} on {key}{choices}")
        slices, gigabytes = (int(number) for number in re.findall(r"[0-9]+", profile))
        compute += count * slices
        memory += count * round(gigabytes * model.memory_slices / model.memory_gib)
        if compute > model.compute_slices or memory > model.memory_slices:
            raise BadRequest(f"the MIG instances {text} do not fit on one {key} together")
        yield from itertools.repeat(profile, count)


def _instances(seed: str, profiles: list[str]) -> Iterator[MigInstance]:
    used: set[int] = set()
    for profile in profiles:
        free = (number for number in itertools.count(_FIRST_INSTANCE_ID[int(profile[0])]) if number not in used)
        used.add(number := next(free))
        yield MigInstance(number, f"MIG-{_uuid(f'{seed}/{number}/{profile}')}", profile)


def _uuid(seed: str) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_URL, f"hypergauge:{seed}")


def _from_nvml() -> Inventory:
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return Inventory(reason=str(error))
    gpus, reasons = [], []
    try:
        for index in range(pynvml.nvmlDeviceGetCount()):
            try:
                gpus.append(_read_gpu(pynvml, index))
            except pynvml.NVMLError as error:  # one that fell off the bus; the others can still be used
                reasons.append(f"GPU {index}: {error}")
    except pynvml.NVMLError as error:
        reasons.append(str(error))
    finally:
        pynvml.nvmlShutdown()
    return Inventory(tuple(gpus), "; ".join(reasons) or None)


def _read_gpu(nvml: Any, index: int) -> Gpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    return Gpu(
        index,
        nvml.nvmlDeviceGetUUID(handle),
        nvml.nvmlDeviceGetName(handle),
        int(nvml.nvmlDeviceGetMemoryInfo(handle).total),
        tuple(_read_mig(nvml, handle)),
    )


def _read_mig(nvml: Any, handle: Any) -> Iterator[MigInstance]:
    try:
        enabled, _ = nvml.nvmlDeviceGetMigMode(handle)
    except nvml.NVMLError_NotSupported:
        return
    if enabled != nvml.NVML_DEVICE_MIG_ENABLE:
        return
    for number in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            instance = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)
        except nvml.NVMLError_NotFound:  # a slot without an instance
            continue
        profile = nvml.nvmlDeviceGetName(instance).rpartition("MIG ")[2]  # "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
        yield MigInstance(nvml.nvmlDeviceGetGpuInstanceId(instance), nvml.nvmlDeviceGetUUID(instance), profile)
