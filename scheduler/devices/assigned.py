"""Devices assigned to a run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from hypergauge.core.files.host_lock import HostLock
from hypergauge.gpu import MigInstance
from hypergauge.gpu.vendors import NVIDIA, VisibleGpu, contradicting, visibility
from hypergauge.scheduler.job import Job

__all__ = ["AssignedDevices", "profiles_by_gpu"]


@dataclass(frozen=True, slots=True)
class AssignedDevices:
    """Devices assigned to a run.

    Attributes
    ----------
    visible
        GPUs or MIG instance of the run; ``None`` for the GPUs that the shell sees.
    instance
        MIG instance of the run.
    variables
        Environment variables that show these devices, hide all others, and connect to a daemon.
    not_inherited
        Variables of the shell that contradict them.
    lock
        Lock on an instance that existed before. The supervisor inherits the lock, which keeps other schedulers off.
    """

    visible: tuple[VisibleGpu, ...] | None
    instance: MigInstance | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    not_inherited: Collection[str] = ()
    lock: HostLock | None = None

    @classmethod
    def whole(cls, job: Job, vendors: Collection[str]) -> AssignedDevices:
        """Return the whole GPUs of a job; `vendors` are those of the host's GPUs."""
        if job.devices is None:
            return cls(None)
        visible = tuple(gpu.visible for gpu in job.devices)
        return cls(visible, variables=visibility(visible, vendors), not_inherited=contradicting(vendors))

    @classmethod
    def part(cls, instance: MigInstance, vendors: Collection[str], lock: HostLock | None = None) -> AssignedDevices:
        """Return a MIG instance."""
        visible = (VisibleGpu(NVIDIA, instance.uuid),)
        return cls(visible, instance, visibility(visible, vendors), contradicting(vendors), lock)


def profiles_by_gpu(jobs: Mapping[str, Job]) -> dict[str, dict[str, str]]:
    """Return the requested MIG profiles, by GPU and run."""
    found: dict[str, dict[str, str]] = {}
    for run_id, job in jobs.items():
        if job.collocation.profile is not None and job.devices:
            found.setdefault(job.devices[0].uuid, {})[run_id] = job.collocation.profile
    return found
