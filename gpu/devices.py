"""GPUs and MIG instances of a host."""

from __future__ import annotations

from dataclasses import dataclass

from hypergauge.gpu.models import Model, model_of
from hypergauge.gpu.vendors import NVIDIA, VENDORS, VisibleGpu

__all__ = ["Gpu", "MigInstance"]


@dataclass(frozen=True, slots=True)
class MigInstance:
    """A MIG instance: NVML's id of the GPU instance, its UUID (``MIG-…``) and its profile, such as ``3g.20gb``."""

    gpu_instance_id: int
    uuid: str
    profile: str


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU of this host.

    Attributes
    ----------
    index
        Its number among the GPUs of its vendor.
    uuid
        Its identity in placements and in the labels of its series.
    memory_bytes
        Its memory; ``None`` where the driver reports none, as for an integrated GPU that shares the host's.
    mig_enabled
        Whether MIG mode is on, whether or not there are instances.
    vendor
        Name of its vendor, see `hypergauge.gpu.vendors`.
    runtime_id
        Its name in the vendor's visibility variables, if that is not its UUID.
    files
        Device files that a container needs.
    """

    index: int
    uuid: str
    name: str
    memory_bytes: int | None
    mig: tuple[MigInstance, ...] = ()
    simulated: bool = False
    mig_enabled: bool = False
    vendor: str = NVIDIA
    runtime_id: str = ""
    files: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Readable name: ``GPU 0``, ``AMD GPU 0``."""
        return f"GPU {self.index}" if self.vendor == NVIDIA else f"{VENDORS[self.vendor].title} GPU {self.index}"

    @property
    def visible(self) -> VisibleGpu:
        """The GPU as a run sees it."""
        return VisibleGpu(self.vendor, self.runtime_id or self.uuid, self.files)

    @property
    def uuids(self) -> tuple[str, ...]:
        """Its UUIDs: AMD's GPUs have one of `amd-smi` and one of ROCm's runtime."""
        return (self.uuid, *([self.runtime_id] if self.runtime_id.startswith("GPU-") else []))

    @property
    def model(self) -> Model | None:
        """Its model; ``None`` for an unknown one."""
        return model_of(self.name, self.memory_bytes)

    @property
    def mig_profiles(self) -> tuple[str, ...]:
        """MIG profiles of this model; empty without MIG, or for an unknown model."""
        return tuple(profile.name for profile in self.model.profiles) if self.model else ()

    def describe(self) -> str:
        """Return the name, the MIG instances, and whether the GPU is simulated."""
        text = self.name
        if self.mig_enabled:
            instances = (f"{one.profile} ({one.gpu_instance_id})" for one in self.mig)
            text += f", MIG: {' '.join(instances) or 'no instances'}"
        return text + (", simulated" if self.simulated else "")
