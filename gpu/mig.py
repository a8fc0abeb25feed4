"""MIG instances: placement, creation, removal. A UUID names the GPU, since an index may move to another one."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator
from ctypes import byref, c_uint
from dataclasses import dataclass
from typing import Any

from hypergauge.core.errors import GpuUnavailable
from hypergauge.core.pages import Page
from hypergauge.gpu.devices import MigInstance
from hypergauge.gpu.inventory import list_instances
from hypergauge.gpu.library import Nvml, as_text
from hypergauge.gpu.models import Profile
from hypergauge.gpu.queries import Queries

__all__ = ["Layout", "MigControl", "NotPermitted", "PlacedInstance"]

# The driver takes a moment to release an instance after its last process has ended.
_RELEASE_SECONDS = 10.0
_POLL_SECONDS = 0.05
_PLAIN = re.compile(r"[0-9]+g\.[0-9]+gb")
# More instances than any GPU supports.
_MOST = 32


class NotPermitted(GpuUnavailable):
    """The operation needs root."""

    page = Page.MIG


@dataclass(frozen=True, slots=True)
class PlacedInstance:
    """Existing GPU instance.

    Attributes
    ----------
    profile
        Its profile, with an empty name where the driver has none for it.
    start
        Its first memory slice; ``None`` where only root may know.
    uuid
        UUID of its compute instance, if a single one covers all of it.
    pids
        Processes on it, as far as the driver reports them.
    """

    gpu_instance_id: int
    profile: Profile
    start: int | None
    uuid: str | None
    pids: frozenset[int]


@dataclass(frozen=True, slots=True)
class Layout:
    """MIG layout of one GPU: mode, profiles without extensions, instances, and all processes."""

    gpu_uuid: str
    index: int
    name: str
    mig_enabled: bool
    profiles: tuple[Profile, ...]
    instances: tuple[PlacedInstance, ...]
    pids: frozenset[int]

    @property
    def placed(self) -> list[tuple[Profile, int]]:
        """Profile and first memory slice of each instance with a known position."""
        return [(one.profile, one.start) for one in self.instances if one.start is not None]


class MigControl:
    """MIG partitioning of GPUs.

    Parameters
    ----------
    nvml
        See `hypergauge.gpu.load`. Each call initializes it, so a restart of the driver does no harm.
    """

    def __init__(self, nvml: Nvml) -> None:
        self._nvml = nvml

    @property
    def simulated(self) -> bool:
        """Return whether the GPUs are simulated."""
        return getattr(self._nvml, "SIMULATED", False)

    def layout(self, gpu_uuid: str) -> Layout:
        """Return the current layout of a GPU.

        Raises
        ------
        GpuUnavailable
            The GPU does not answer.
        """
        with self._opened(gpu_uuid) as device:
            profiles = dict(self._profiles(device))
            enabled = self._enabled(device)
            instances = tuple(self._instances(device, profiles)) if enabled else ()
            return Layout(
                gpu_uuid,
                int(self._nvml.nvmlDeviceGetIndex(device)),
                as_text(Queries(self._nvml, device).query("nvmlDeviceGetName") or "NVIDIA GPU"),
                enabled,
                tuple(one for one in profiles.values() if _PLAIN.fullmatch(one.name)),
                instances,
                self._pids(device).union(*(one.pids for one in instances)),
            )

    def create(self, gpu_uuid: str, profile: str, start: int) -> MigInstance:
        """Create a GPU instance at memory slice `start`, with one compute instance over all of it.

        Raises
        ------
        NotPermitted
            The operation needs root.
        GpuUnavailable
            The GPU has no room for it, or does not answer.
        """
        nvml = self._nvml
        with self._opened(gpu_uuid) as device:
            number, memory = next(
                ((number, one.memory) for number, one in self._profiles(device) if one.name == profile), (None, 0)
            )
            if number is None:
                raise GpuUnavailable(f"GPU {gpu_uuid} has no MIG profile {profile}")
            placement = nvml.c_nvmlGpuInstancePlacement_t(start, memory)
            try:
                made = nvml.nvmlDeviceCreateGpuInstanceWithPlacement(device, number, byref(placement))
            except nvml.NVMLError_InsufficientResources as error:
                raise GpuUnavailable(
                    f"GPU {gpu_uuid} has no room for a MIG instance {profile} on memory slice {start}"
                ) from error
            try:
                nvml.nvmlGpuInstanceCreateComputeInstance(made, self._whole(made))
                identity = int(nvml.nvmlGpuInstanceGetInfo(made).id)
                for instance, _ in list_instances(nvml, device):
                    if instance.gpu_instance_id == identity:
                        return instance
                raise GpuUnavailable(f"GPU {gpu_uuid} created a MIG instance {profile}, but lists no device for it")
            except BaseException:
                with contextlib.suppress(nvml.NVMLError):
                    self._destroy(made)
                raise

    def remove(self, gpu_uuid: str, gpu_instance_id: int, timeout: float = _RELEASE_SECONDS) -> None:
        """Remove a GPU instance with its compute instances. A missing instance is not an error.

        Raises
        ------
        NotPermitted
            The operation needs root.
        GpuUnavailable
            A process is still on it after `timeout` seconds, or the GPU does not answer.
        """
        nvml = self._nvml
        deadline = time.monotonic() + timeout
        with self._opened(gpu_uuid) as device:
            while True:
                try:
                    self._destroy(nvml.nvmlDeviceGetGpuInstanceById(device, gpu_instance_id))
                except (nvml.NVMLError_NotFound, nvml.NVMLError_InvalidArgument):
                    return
                except nvml.NVMLError_InUse as error:
                    if time.monotonic() >= deadline:
                        what = f"a process is still on MIG instance {gpu_instance_id} of GPU {gpu_uuid}"
                        raise GpuUnavailable(what) from error
                    time.sleep(_POLL_SECONDS)
                else:
                    return

    @contextlib.contextmanager
    def _opened(self, gpu_uuid: str) -> Iterator[Any]:
        """Open NVML and find a GPU; wrap NVML's errors."""
        nvml = self._nvml
        try:
            nvml.nvmlInit()
            try:
                yield nvml.nvmlDeviceGetHandleByUUID(gpu_uuid)
            finally:
                nvml.nvmlShutdown()
        except nvml.NVMLError_NoPermission as error:
            raise NotPermitted(f"GPU {gpu_uuid}: {error}") from error
        except nvml.NVMLError as error:
            raise GpuUnavailable(f"GPU {gpu_uuid}: {error}") from error

    def _enabled(self, device: Any) -> bool:
        mode = Queries(self._nvml, device).query("nvmlDeviceGetMigMode")
        return mode is not None and bool(mode[0] == self._nvml.NVML_DEVICE_MIG_ENABLE)

    def _profiles(self, device: Any) -> Iterator[tuple[int, Profile]]:
        """Yield each profile with the driver's id of it."""
        nvml = self._nvml
        for constant in range(nvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
            try:
                info = nvml.nvmlDeviceGetGpuInstanceProfileInfo(device, constant)
                placements = _array(
                    nvml.c_nvmlGpuInstancePlacement_t,
                    nvml.nvmlDeviceGetGpuInstancePossiblePlacements, device, info.id,
                )  # fmt: skip
            except nvml.NVMLError as error:  # a profile that this GPU does not have
                Queries(nvml, device).lacks(error)
                continue
            if placements:
                name = as_text(info.name).rpartition("MIG ")[2]
                starts = tuple(sorted(int(one.start) for one in placements))
                yield int(info.id), Profile(name, int(info.sliceCount), int(placements[0].size), starts)

    def _instances(self, device: Any, profiles: dict[int, Profile]) -> Iterator[PlacedInstance]:
        nvml = self._nvml
        devices: dict[int, list[tuple[MigInstance, Any]]] = {}
        for instance, handle in list_instances(nvml, device):
            devices.setdefault(instance.gpu_instance_id, []).append((instance, handle))
        placed = self._placed(device, profiles)
        names = {profile.name: profile for profile in profiles.values()}
        for identity in sorted({*placed, *devices}):
            there = devices.get(identity, [])
            name = there[0][0].profile if there else ""
            profile, start = placed.get(identity, (names.get(name, Profile(name, 0, 0, ())), None))
            whole = there[0][0].uuid if len(there) == 1 and name == profile.name else None
            pids = frozenset[int]().union(*(self._pids(handle) for _, handle in there))
            yield PlacedInstance(identity, profile, start, whole, pids)

    def _placed(self, device: Any, profiles: dict[int, Profile]) -> dict[int, tuple[Profile, int]]:
        """Return profile and first memory slice of each GPU instance by its id; empty without permission."""
        nvml = self._nvml
        found: dict[int, tuple[Profile, int]] = {}
        # The driver's ids are nodes of a tree over the slices.
        for identity in range(2 * max((max(one.starts) + one.memory for one in profiles.values()), default=0)):
            try:
                info = nvml.nvmlGpuInstanceGetInfo(nvml.nvmlDeviceGetGpuInstanceById(device, identity))
            except (nvml.NVMLError_NotFound, nvml.NVMLError_InvalidArgument):
                continue
            except nvml.NVMLError_NoPermission:
                return {}
            unknown = Profile("", 0, int(info.placement.size), ())
            found[identity] = (profiles.get(int(info.profileId), unknown), int(info.placement.start))
        return found

    def _pids(self, device: Any) -> frozenset[int]:
        nvml = self._nvml
        pids: set[int] = set()
        for query in (nvml.nvmlDeviceGetComputeRunningProcesses, nvml.nvmlDeviceGetMPSComputeRunningProcesses):
            with contextlib.suppress(nvml.NVMLError_NotSupported, nvml.NVMLError_NoPermission, _missing(nvml)):
                pids |= {int(one.pid) for one in query(device)}
        return frozenset(pids)

    def _whole(self, made: Any) -> int:
        """Return the id of the compute instance profile that covers all of a GPU instance."""
        return -max((int(info.sliceCount), -int(info.id)) for info in self._compute_profiles(made))[1]

    def _compute_profiles(self, instance: Any) -> Iterator[Any]:
        nvml = self._nvml
        for constant in range(nvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
            with contextlib.suppress(nvml.NVMLError_NotSupported, nvml.NVMLError_InvalidArgument):
                yield nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(
                    instance, constant, nvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED
                )

    def _destroy(self, instance: Any) -> None:
        nvml = self._nvml
        for info in self._compute_profiles(instance):
            for compute in _array(
                nvml.c_nvmlComputeInstance_t, nvml.nvmlGpuInstanceGetComputeInstances, instance, info.id
            ):
                nvml.nvmlComputeInstanceDestroy(compute)
        nvml.nvmlGpuInstanceDestroy(instance)


def _array(kind: Any, query: Callable[..., object], *arguments: Any) -> list[Any]:
    """Return the elements that NVML writes to an array of `kind`, which is longer than any answer."""
    array, count = (kind * _MOST)(), c_uint(_MOST)
    query(*arguments, array, byref(count))
    return list(array[: count.value])


def _missing(nvml: Nvml) -> type[Exception]:
    """Return the error of a driver too old for a function."""
    kind: type[Exception] = nvml.NVMLError_FunctionNotFound
    return kind
