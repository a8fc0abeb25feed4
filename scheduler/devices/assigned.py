"""Devices assigned to a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hypergauge.core.files.host_lock import HostLock
from hypergauge.gpu import MigInstance
from hypergauge.scheduler.job import Job

__all__ = ["AssignedDevices", "profiles_by_gpu", "visible_uuids"]


@dataclass(frozen=True, slots=True)
class AssignedDevices:
    """Devices assigned to a run.

    Attributes
    ----------
    visible
        UUIDs of the run's GPUs or MIG instance; ``None`` for the GPUs that the shell sees.
    instance
        MIG instance of the run.
    variables
        Environment variables that the devices need.
    lock
        Lock on an instance that existed before. The supervisor inherits the lock, which keeps other schedulers off.
    """

    visible: tuple[str, ...] | None
    instance: MigInstance | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    lock: HostLock | None = None


def visible_uuids(job: Job) -> tuple[str, ...] | None:
    """Return the UUIDs of a job's GPUs; ``None`` for the GPUs that the shell sees."""
    return None if job.devices is None else tuple(gpu.uuid for gpu in job.devices)


def profiles_by_gpu(jobs: Mapping[str, Job]) -> dict[str, dict[str, str]]:
    """Return the requested MIG profiles, by GPU and run."""
    found: dict[str, dict[str, str]] = {}
    for run_id, job in jobs.items():
        if job.collocation.profile is not None and job.devices:
            found.setdefault(job.devices[0].uuid, {})[run_id] = job.collocation.profile
    return found
