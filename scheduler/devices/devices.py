"""Devices of a workload's runs, and the account of MIG instances and MPS daemons made for them.

Each is recorded before it is made, and removed when its runs are over: by the scheduler that made it; where that is gone,
by the last supervisor of its runs, or by the next scheduler. Nothing else is ever removed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import GpuUnavailable
from hypergauge.core.files.host_lock import HostLock
from hypergauge.core.files.run_folder import RunFolder
from hypergauge.core.system.processes import RunProcesses, boot_id, identity, is_alive
from hypergauge.gpu import MigInstance, load
from hypergauge.gpu.mig import Layout, MigControl, NotPermitted
from hypergauge.scheduler.devices.instances import (
    Choice,
    choose,
    needs_root,
    pick,
    refuse_foreign,
    refuse_mig_mode,
    remove_instance,
)
from hypergauge.scheduler.devices.mps import MpsDaemon, program
from hypergauge.scheduler.job import Job
from hypergauge.scheduler.supervision import is_supervised
from hypergauge.sql.runs import provisioned_devices
from hypergauge.sql.runs.provisioned_devices import Holder, ProvisionedDevice
from hypergauge.sql.server.session import Session

__all__ = ["Devices", "Given"]

# How long another scheduler may take to make its devices, or to remove them.
_TURN_SECONDS = 60.0
_TEMPORARY = Path("/tmp")  # noqa: S108 - a short path, for sockets; the folders in it are private, and have new names


@dataclass(frozen=True, slots=True)
class Given:
    """Devices given to a run.

    Attributes
    ----------
    visible
        UUIDs of its GPUs or its MIG instance; ``None`` where it sees what the shell sees.
    instance
        Its MIG instance.
    variables
        What else is to be in its environment.
    claim
        On its instance, where that was there before: its supervisor inherits it, and so keeps others off.
    """

    visible: tuple[str, ...] | None
    instance: MigInstance | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    claim: HostLock | None = None


class Devices:
    """The devices of the runs of one home on this host.

    Parameters
    ----------
    settings
        Home and simulated GPUs. Simulated daemons are folders alone where the program is not on ``PATH``.
    control
        What divides GPUs; by default those of `settings`.
    allocated
        UUIDs of the MIG instances that may be used, where somebody else deals them out: then none is made.
    """

    def __init__(
        self, settings: Settings, control: MigControl | None = None, allocated: Collection[str] | None = None
    ) -> None:
        self._settings = settings
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
        # Each simulated world has GPUs of its own, of the same names.
        self._scope = hashlib.sha256(str(settings.home).encode()).hexdigest()[:16] if settings.simulate else "host"

    @property
    def control(self) -> MigControl:
        """MIG partitioning of this host's GPUs."""
        if self._control is None:
            self._control = MigControl(load(self._settings.simulate, self._settings.home))
        return self._control

    def provide(self, session: Session, jobs: Mapping[str, Job], beside: Sequence[str] = ()) -> dict[str, Given]:
        """Make what the runs of a workload need, and return what each is given, by its id.

        Parameters
        ----------
        jobs
            The runs that are about to start, by id.
        beside
            The workload's runs that go on already: they share its daemon.

        Raises
        ------
        GpuUnavailable
            It cannot be had; nothing of it was made, or it is recorded and goes with `clear`.
        """
        given = {run_id: Given(_visible(job)) for run_id, job in jobs.items()}
        divided = _profiles_by_gpu(jobs)
        shared = {run_id: job for run_id, job in jobs.items() if job.collocation.kind == "mps"}
        if not divided and not shared:
            return given
        with self._turn():
            self._clear(session, mine=False)
            recorded = session(provisioned_devices.on_host, self._host)
            ours = self._pids(recorded)
            taken = {one.mig_uuid for one in recorded}
            claims: dict[str, HostLock] = {}
            try:
                choices = []
                for gpu, wanted in divided.items():
                    layout = self.control.layout(gpu)
                    usable = self._claim(layout, taken, claims)
                    choices.append(
                        choose(layout, wanted, ours, usable)
                        if self._allocated is None
                        else pick(layout, wanted, usable & set(self._allocated))
                    )
                for gpu in dict.fromkeys(gpu.uuid for job in shared.values() for gpu in job.devices or ()):
                    layout = self.control.layout(gpu)
                    refuse_mig_mode(layout)
                    refuse_foreign(layout, ours)
                for choice in choices:
                    given |= self._make_instances(session, choice, claims)
                if shared:
                    given |= self._join_daemon(session, shared, beside, recorded)
            finally:
                used = {one.instance.uuid for one in given.values() if one.instance}
                for mig_uuid, claim in claims.items():
                    if mig_uuid not in used:
                        claim.release()
        return given

    def adopt(self, session: Session, run_ids: Sequence[str]) -> None:
        """Be the one to remove what there is for runs that a dead scheduler has left to us."""
        session(provisioned_devices.adopt, self._holder, run_ids)

    def clear(self, session: Session) -> list[str]:
        """Remove what is for runs that are over, where its scheduler is gone or this one.

        Returns
        -------
        list of str
            What could not be removed, and why; it stays recorded.
        """
        if not any(one.home == self._holder.home for one in session(provisioned_devices.on_host, self._host)):
            return []
        try:
            with self._turn():
                return self._clear(session, mine=True)
        except GpuUnavailable as error:
            return [str(error)]

    def without_ours(self, session: Session, gpu_uuid: str) -> tuple[Layout, set[int]]:
        """Return a GPU as it is without anything that was made for runs, and the processes of runs."""
        recorded = session(provisioned_devices.on_host, self._host)
        layout = self.control.layout(gpu_uuid)
        made = {one.mig_uuid for one in recorded if one.mig_uuid}
        stay = tuple(one for one in layout.instances if one.uuid not in made)
        return replace(layout, instances=stay), self._pids(recorded)

    def is_supervised(self, run_id: str) -> bool:
        """Return whether somebody supervises a run of this home."""
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
                session(provisioned_devices.forget, one.owned_id)
        return problems

    def _is_over(self, one: ProvisionedDevice, running: set[str], mine: bool) -> bool:
        if one.boot_id == self._holder.boot_id and is_alive(one.holder_pid, one.holder_created):
            is_mine = (one.holder_pid, one.holder_created) == (self._holder.pid, self._holder.created)
            if not (mine and is_mine):
                return False
        return not any(self._goes_on(run_id, running) for run_id in one.run_ids)

    def _goes_on(self, run_id: str, running: set[str]) -> bool:
        folder = RunFolder(self._settings.runs_dir / run_id)
        supervised = is_supervised(folder)  # asked first: one that ends in between has written its end by now
        return folder.end() is None and (supervised or run_id in running)

    def _remove(self, one: ProvisionedDevice) -> None:
        if one.kind == "daemon":
            assert one.folder is not None
            MpsDaemon(Path(one.folder)).stop()
        elif one.simulated != self._holder.simulated:
            if not one.simulated:
                raise GpuUnavailable(
                    "a MIG instance on a real GPU is left; schedule without BENCH_SIMULATE to remove it"
                )
        elif one.boot_id == self._holder.boot_id:  # else it went when the host was restarted
            remove_instance(self.control, one)

    def _make_instances(self, session: Session, choice: Choice, claims: Mapping[str, HostLock]) -> dict[str, Given]:
        given = {run_id: Given((one.uuid,), one, claim=claims[one.uuid]) for run_id, one in choice.there.items()}
        gpu = choice.layout.gpu_uuid
        for run_id, (profile, start) in choice.made.items():
            record = session(provisioned_devices.record, "instance", self._holder, [run_id], [gpu], profile=profile, start=start
            )  # fmt: skip
            try:
                made = self.control.create(gpu, profile, start)
            except NotPermitted as error:
                session(provisioned_devices.forget, record.owned_id)
                raise needs_root(choice.layout, choice.made.values()) from error
            session(provisioned_devices.complete, record.owned_id, made.gpu_instance_id, made.uuid)
            given[run_id] = Given((made.uuid,), made)
        return given

    def _join_daemon(
        self, session: Session, jobs: Mapping[str, Job], beside: Sequence[str], recorded: Sequence[ProvisionedDevice]
    ) -> dict[str, Given]:
        """Return what makes runs clients of the workload's daemon, started where it does not run."""
        gpus = list(dict.fromkeys(gpu.uuid for job in jobs.values() for gpu in job.devices or ()))
        daemon = None
        for one in recorded:
            if one.kind == "daemon" and set(one.run_ids) & set(beside) and set(gpus) <= set(one.gpu_uuids):
                there = MpsDaemon(Path(one.folder or ""))
                if there.running or (program() is None and there.folder.exists()):
                    session(provisioned_devices.join, one.owned_id, list(jobs))
                    daemon = there
        if daemon is None:
            folder = _TEMPORARY / f"hypergauge-mps-{uuid.uuid4().hex[:12]}"
            session(provisioned_devices.record, "daemon", self._holder, list(jobs), gpus, folder=str(folder))
            daemon = MpsDaemon(folder)
            daemon.start(gpus)
        return {
            run_id: Given(_visible(job), variables=daemon.variables(job.collocation.percentage))
            for run_id, job in jobs.items()
        }

    def _claim(self, layout: Layout, taken: set[str | None], claims: dict[str, HostLock]) -> set[str]:
        """Claim the instances of a GPU that are nobody's, and return their UUIDs."""
        usable = set()
        for one in layout.instances:
            if one.uuid is None or one.uuid in taken or one.pids:
                continue
            claim = HostLock(f"{self._scope}/{one.uuid}")
            if claim.take():
                claims[one.uuid] = claim
                usable.add(one.uuid)
        return usable

    def _pids(self, recorded: Sequence[ProvisionedDevice]) -> set[int]:
        """Return the processes of all runs on this host, and of the daemons that were started for them."""
        pids = {process.pid for tree in RunProcesses().scan().values() for process in tree.members}
        for one in recorded:
            if one.kind == "daemon" and one.folder is not None:
                pids |= MpsDaemon(Path(one.folder)).pids
        return pids

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """Let one process at a time make and remove devices on this host, so that each sees what the others have."""
        with HostLock(f"{self._scope}/devices") as claim:
            if not claim.take(_TURN_SECONDS):
                raise GpuUnavailable(f"another scheduler has been dividing the GPUs for {_TURN_SECONDS:g} s")
            yield


def _visible(job: Job) -> tuple[str, ...] | None:
    return None if job.devices is None else tuple(gpu.uuid for gpu in job.devices)


def _profiles_by_gpu(jobs: Mapping[str, Job]) -> dict[str, dict[str, str]]:
    """Return the profiles that are wanted on each GPU, by run."""
    found: dict[str, dict[str, str]] = {}
    for run_id, job in jobs.items():
        if job.collocation.profile is not None and job.devices:
            found.setdefault(job.devices[0].uuid, {})[run_id] = job.collocation.profile
    return found
