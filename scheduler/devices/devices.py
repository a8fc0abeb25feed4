"""Provisioned devices: MIG instances and MPS daemons that the scheduler creates for the runs of a workload.

The database has a record of each device before it is created. The scheduler removes the device when its runs have
ended. If that scheduler has died, the last supervisor of the runs or the next scheduler removes it. Other devices stay.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import GpuUnavailable
from hypergauge.core.files.host_lock import HostLock
from hypergauge.core.files.run_folder import RunFolder
from hypergauge.core.system.processes import RunProcesses, boot_id, identity, is_alive
from hypergauge.gpu import load
from hypergauge.gpu.mig import Layout, MigControl, NotPermitted
from hypergauge.scheduler.devices.assigned import AssignedDevices, profiles_by_gpu
from hypergauge.scheduler.devices.instances import (
    Choice,
    choose,
    needs_root,
    pick,
    refuse_mig_mode,
    refuse_other_processes,
    remove_instance,
)
from hypergauge.scheduler.devices.mps import MpsDaemon, program
from hypergauge.scheduler.job import Job
from hypergauge.scheduler.supervision import is_supervised
from hypergauge.sql.runs import provisioned_devices
from hypergauge.sql.runs.provisioned_devices import Holder, ProvisionedDevice
from hypergauge.sql.server.session import Session

__all__ = ["Devices"]

# Longest wait for another scheduler that creates or removes devices.
_LOCK_SECONDS = 60.0
_TEMPORARY = Path("/tmp")  # noqa: S108 - sockets need a short path; the folders are private and have unique names


class Devices:
    """Devices of one home's runs on this host.

    Parameters
    ----------
    settings
        Home and simulated GPUs. Simulated daemons are only folders if the program is not on ``PATH``.
    control
        MIG control; by default for the GPUs of `settings`.
    allocated
        UUIDs of the MIG instances that a batch system has assigned; no others are used, and none is created.
    vendors
        Vendors of the host's GPUs, which are hidden from runs without them.
    """

    def __init__(
        self,
        settings: Settings,
        control: MigControl | None = None,
        allocated: Collection[str] | None = None,
        vendors: Collection[str] = (),
    ) -> None:
        self._settings, self._vendors = settings, vendors
        self._allocated = allocated
        self._control = control
        self._host = platform.node()
        self._holder = Holder(
            self._host,
            boot_id(),
            str(settings.home),
            settings.simulate or "",
            os.getpid(),
            identity(os.getpid()) or 0.0,
        )
        # Simulated GPUs of different homes are separate, but have the same UUIDs.
        self._scope = hashlib.sha256(str(settings.home).encode()).hexdigest()[:16] if settings.simulate else "host"

    @property
    def control(self) -> MigControl:
        """MIG partitioning of this host's GPUs."""
        if self._control is None:
            self._control = MigControl(load(self._settings.simulate, self._settings.home))
        return self._control

    def provide(
        self, session: Session, jobs: Mapping[str, Job], concurrent: Sequence[str] = ()
    ) -> dict[str, AssignedDevices]:
        """Create the devices of a workload's runs; return the devices assigned to each run, by id.

        Parameters
        ----------
        jobs
            Runs that are about to start, by id.
        concurrent
            Ids of running runs of the workload, which share its daemon.

        Raises
        ------
        GpuUnavailable
            A device is not available. Devices created so far are recorded, and `clear` removes them.
        """
        assigned = {run_id: AssignedDevices.whole(job, self._vendors) for run_id, job in jobs.items()}
        divided = profiles_by_gpu(jobs)
        shared = {run_id: job for run_id, job in jobs.items() if job.collocation.kind == "mps"}
        if not divided and not shared:
            return assigned
        with self._locked():
            self._clear(session, mine=False)
            recorded = session(provisioned_devices.on_host, self._host)
            ours = self._pids(recorded)
            taken = {one.mig_uuid for one in recorded}
            locks: dict[str, HostLock] = {}
            try:
                choices = []
                for gpu, wanted in divided.items():
                    layout = self.control.layout(gpu)
                    usable = self._lock_instances(layout, taken, locks)
                    choices.append(
                        choose(layout, wanted, ours, usable)
                        if self._allocated is None
                        else pick(layout, wanted, usable & set(self._allocated))
                    )
                for gpu in dict.fromkeys(gpu.uuid for job in shared.values() for gpu in job.devices or ()):
                    layout = self.control.layout(gpu)
                    refuse_mig_mode(layout)
                    refuse_other_processes(layout, ours)
                for choice in choices:
                    assigned |= self._make_instances(session, choice, locks)
                if shared:
                    assigned |= self._join_daemon(session, shared, concurrent, recorded)
            finally:
                used = {one.instance.uuid for one in assigned.values() if one.instance}
                for mig_uuid, lock in locks.items():
                    if mig_uuid not in used:
                        lock.release()
        return assigned

    def adopt(self, session: Session, run_ids: Sequence[str]) -> None:
        """Take over the devices of a dead scheduler's runs."""
        session(provisioned_devices.adopt, self._holder, run_ids)

    def clear(self, session: Session) -> list[str]:
        """Remove the devices of ended runs, if their scheduler is dead or is this process.

        Returns
        -------
        list of str
            Reason for each device that could not be removed; it stays recorded.
        """
        if not any(one.home == self._holder.home for one in session(provisioned_devices.on_host, self._host)):
            return []
        try:
            with self._locked():
                return self._clear(session, mine=True)
        except GpuUnavailable as error:
            return [str(error)]

    def without_ours(self, session: Session, gpu_uuid: str) -> tuple[Layout, set[int]]:
        """Return the layout of a GPU without provisioned instances, and the PIDs of runs and MPS daemons."""
        recorded = session(provisioned_devices.on_host, self._host)
        layout = self.control.layout(gpu_uuid)
        made = {one.mig_uuid for one in recorded if one.mig_uuid}
        stay = tuple(one for one in layout.instances if one.uuid not in made)
        return replace(layout, instances=stay), self._pids(recorded)

    def is_supervised(self, run_id: str) -> bool:
        """Return whether a run of this home has a live supervisor."""
        return is_supervised(RunFolder(self._settings.runs_dir / run_id))

    def _clear(self, session: Session, *, mine: bool) -> list[str]:
        problems: list[str] = []
        running = {
            run_id
            for run_id, tree in RunProcesses().scan().items()
            if any(not process.zombie for process in tree.members)
        }
        for one in session(provisioned_devices.on_host, self._host):
            if one.home != self._holder.home or not self._is_over(one, running, mine):
                continue
            try:
                self._remove(one)
            except (GpuUnavailable, OSError) as error:
                problems.append(str(error))
            else:
                session(provisioned_devices.forget, one.device_id)
        return problems

    def _is_over(self, one: ProvisionedDevice, running: set[str], mine: bool) -> bool:
        if one.boot_id == self._holder.boot_id and is_alive(one.holder_pid, one.holder_created):
            is_mine = (one.holder_pid, one.holder_created) == (self._holder.pid, self._holder.created)
            if not (mine and is_mine):
                return False
        return not any(self._is_running(run_id, running) for run_id in one.run_ids)

    def _is_running(self, run_id: str, running: set[str]) -> bool:
        folder = RunFolder(self._settings.runs_dir / run_id)
        supervised = is_supervised(folder)  # before `end()`: a supervisor writes the end before it exits
        return folder.end() is None and (supervised or run_id in running)

    def _remove(self, one: ProvisionedDevice) -> None:
        if one.kind == "daemon":
            assert one.folder is not None
            MpsDaemon(Path(one.folder)).stop()
        elif one.simulated != self._holder.simulated:
            if not one.simulated:
                raise GpuUnavailable(
                    "a MIG instance remains on a real GPU; schedule without BENCH_SIMULATE to remove it"
                )
        elif one.boot_id == self._holder.boot_id:  # a reboot removes MIG instances
            remove_instance(self.control, one)

    def _make_instances(
        self, session: Session, choice: Choice, locks: Mapping[str, HostLock]
    ) -> dict[str, AssignedDevices]:
        assigned = {
            run_id: AssignedDevices.part(one, self._vendors, locks[one.uuid]) for run_id, one in choice.there.items()
        }
        gpu = choice.layout.gpu_uuid
        for run_id, (profile, start) in choice.made.items():
            record = session(provisioned_devices.record, "instance", self._holder, [run_id], [gpu], profile=profile, start=start
            )  # fmt: skip
            try:
                made = self.control.create(gpu, profile, start)
            except NotPermitted as error:
                session(provisioned_devices.forget, record.device_id)
                raise needs_root(choice.layout, choice.made.values()) from error
            session(provisioned_devices.complete, record.device_id, made.gpu_instance_id, made.uuid)
            assigned[run_id] = AssignedDevices.part(made, self._vendors)
        return assigned

    def _join_daemon(
        self,
        session: Session,
        jobs: Mapping[str, Job],
        concurrent: Sequence[str],
        recorded: Sequence[ProvisionedDevice],
    ) -> dict[str, AssignedDevices]:
        """Return the devices of runs on the workload's MPS daemon; start the daemon if it is not running."""
        gpus = list(dict.fromkeys(gpu.uuid for job in jobs.values() for gpu in job.devices or ()))
        daemon = None
        for one in recorded:
            if one.kind == "daemon" and set(one.run_ids) & set(concurrent) and set(gpus) <= set(one.gpu_uuids):
                there = MpsDaemon(Path(one.folder or ""))
                if there.running or (program() is None and there.folder.exists()):
                    session(provisioned_devices.join, one.device_id, list(jobs))
                    daemon = there
        if daemon is None:
            folder = _TEMPORARY / f"hypergauge-mps-{uuid.uuid4().hex[:12]}"
            session(provisioned_devices.record, "daemon", self._holder, list(jobs), gpus, folder=str(folder))
            daemon = MpsDaemon(folder)
            daemon.start(gpus)
        found = {}
        for run_id, job in jobs.items():
            whole = AssignedDevices.whole(job, self._vendors)
            variables = {**whole.variables, **daemon.variables(job.collocation.percentage)}
            found[run_id] = replace(whole, variables=variables)
        return found

    def _lock_instances(self, layout: Layout, taken: set[str | None], locks: dict[str, HostLock]) -> set[str]:
        """Lock the free instances of a GPU; return their UUIDs."""
        usable = set()
        for one in layout.instances:
            if one.uuid is None or one.uuid in taken or one.pids:
                continue
            lock = HostLock(f"{self._scope}/{one.uuid}")
            if lock.take():
                locks[one.uuid] = lock
                usable.add(one.uuid)
        return usable

    def _pids(self, recorded: Sequence[ProvisionedDevice]) -> set[int]:
        """Return the PIDs of all runs on this host and of their MPS daemons."""
        pids = {process.pid for tree in RunProcesses().scan().values() for process in tree.members}
        for one in recorded:
            if one.kind == "daemon" and one.folder is not None:
                pids |= MpsDaemon(Path(one.folder)).pids
        return pids

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the host-wide lock for creating and removing devices."""
        with HostLock(f"{self._scope}/devices") as lock:
            if not lock.take(_LOCK_SECONDS):
                raise GpuUnavailable(
                    f"another scheduler has been changing the GPUs' partitions for {_LOCK_SECONDS:g} s"
                )
            yield
