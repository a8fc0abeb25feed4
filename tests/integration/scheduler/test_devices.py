"""Provisioned devices: recorded first, removed after, and found by the next schedule after a crash."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import GpuUnavailable
from hypergauge.core.files.run_folder import RunEnd, RunFolder, SupervisorState
from hypergauge.core.pages import Page
from hypergauge.core.system.other_processes import HostCpu
from hypergauge.core.system.processes import boot_id, identity
from hypergauge.gpu import inventory, load
from hypergauge.gpu.mig import MigControl, NotPermitted
from hypergauge.scheduler.devices.devices import Devices
from hypergauge.scheduler.devices.mps import MpsDaemon
from hypergauge.scheduler.events import Event
from hypergauge.scheduler.executors.local import LocalExecutor
from hypergauge.scheduler.experiment.cells import Collocation
from hypergauge.scheduler.job import Job, job_from_command
from hypergauge.scheduler.plan.quiet_host import QuietHost
from hypergauge.sql.runs import provisioned_devices
from hypergauge.sql.runs.provisioned_devices import Holder
from hypergauge.sql.schema.flavour import Flavour
from hypergauge.sql.server.database import Connection, Database
from hypergauge.sql.server.session import Session
from tests.support.fakes.mps import installed_mps
from tests.unit.gpu.test_mig import Overridden, forbidden

SPECIFICATION = "1xA100:mig,1xA100:1x1g.5gb,2xH100"
pytestmark = pytest.mark.parametrize("flavour", [Flavour.POSTGRESQL], indirect=True, ids=["postgresql"])

RUN, OTHER = "a" * 32, "b" * 32
DEAD = 2**22 + 1  # no pid is as high


class Host:
    """A host with simulated GPUs, and a scheduler's devices on it."""

    def __init__(self, session: Session, connection: Connection, settings: Settings) -> None:
        self.session, self.connection, self.settings = session, connection, settings
        self.nvml = load(SPECIFICATION, settings.home)
        self.gpus = inventory(nvml=self.nvml).gpus
        self.control = MigControl(self.nvml)
        self.devices = Devices(settings, self.control)

    def provide(self, **jobs: tuple[int, str]) -> dict[str, Any]:
        """Make what runs need that are named by a letter: ``a=(0, "3g.20gb")``."""
        named = {letter * 32: self.job(*arguments) for letter, arguments in jobs.items()}
        return {run_id[0]: given for run_id, given in self.devices.provide(self.session, named).items()}

    def job(self, gpu: int, collocation: str) -> Job:
        wanted = Collocation.parse(collocation)
        return job_from_command(["true"], name=None, devices=(self.gpus[gpu],), collocation=wanted)

    def there(self, gpu: int = 0) -> list[tuple[str, int | None]]:
        return sorted((one.profile.name, one.start) for one in self.control.layout(self.gpus[gpu].uuid).instances)

    def recorded(self) -> list[str]:
        return [one.kind for one in provisioned_devices.on_host(self.connection, os.uname().nodename)]

    def clear(self) -> list[str]:
        """Do what a scheduler does when it starts."""
        return Devices(self.settings, self.control).clear(self.session)

    def forsake(self) -> None:
        """Let everything be held by a scheduler that is dead."""
        self.hand_over(DEAD, 1.0)

    def hand_over(self, pid: int, created: float | None) -> None:
        """Let everything be held by another process."""
        self.connection.execute("update provisioned_devices set holder_pid = %s, holder_created = %s", (pid, created))


@pytest.fixture
def host(database: Database, settings: Settings) -> Iterator[Host]:
    with Session(database) as session, database.session() as connection:
        made = Host(session, connection, replace(settings, simulate=SPECIFICATION))
        yield made
        for one in provisioned_devices.on_host(connection, os.uname().nodename):
            if one.folder:
                MpsDaemon(Path(one.folder)).stop(timeout=0.1)


@pytest.fixture
def mps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = installed_mps(tmp_path / "programs")
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    return folder


def going_on(host: Host, run_id: str) -> RunFolder:
    """Return the folder of a run that this process supervises."""
    folder = RunFolder(host.settings.runs_dir / run_id)
    folder.create({})
    folder.write_state(SupervisorState(os.getpid(), identity(os.getpid()) or 0.0))
    return folder


def test_instances_are_recorded_with_what_they_were_given(host: Host) -> None:
    given = host.provide(a=(0, "3g.20gb"), b=(0, "4g.20gb"))
    assert host.there() == [("3g.20gb", 4), ("4g.20gb", 0)]
    records = {one.run_ids[0][0]: one for one in provisioned_devices.on_host(host.connection, os.uname().nodename)}
    for letter, one in records.items():
        instance = given[letter].instance
        assert (one.gpu_instance_id, one.mig_uuid, one.profile) == (
            instance.gpu_instance_id, instance.uuid, instance.profile,
        )  # fmt: skip
        assert given[letter].variables == {"CUDA_VISIBLE_DEVICES": instance.uuid}
        assert (one.holder_pid, one.boot_id, one.home) == (os.getpid(), boot_id(), str(host.settings.home))
    assert host.devices.clear(host.session) == []
    assert (host.there(), host.recorded()) == ([], [])


def test_what_was_there_before_is_used_by_one_at_a_time_and_stays(host: Host) -> None:
    [before] = host.gpus[1].mig
    one = host.provide(a=(1, "1g.5gb"))["a"]
    assert (one.instance, host.recorded()) == (before, [])
    another = Devices(host.settings, host.control).provide(host.session, {OTHER: host.job(1, "1g.5gb")})[OTHER]
    assert another.instance != before
    one.lock.release()
    again = Devices(host.settings, host.control).provide(host.session, {RUN: host.job(1, "1g.5gb")})[RUN]
    assert again.instance == before
    assert again.lock is not None
    again.lock.release()
    host.forsake()
    assert host.clear() == []
    assert host.there(1) == [("1g.5gb", 0)]


@pytest.mark.parametrize("made", [False, True], ids=["before it was made", "before that was recorded"])
def test_a_scheduler_that_dies_in_the_middle_of_making(host: Host, made: bool) -> None:
    holder = Holder(os.uname().nodename, boot_id(), str(host.settings.home), SPECIFICATION, DEAD, 1.0)
    gpu = host.gpus[0].uuid
    provisioned_devices.record(host.connection, "instance", holder, [RUN], [gpu], profile="3g.20gb", start=4)
    if made:
        host.control.create(gpu, "3g.20gb", 4)
    host.control.create(gpu, "3g.20gb", 0)
    assert host.clear() == []
    assert (host.there(), host.recorded()) == ([("3g.20gb", 0)], [])


def test_what_is_in_use_is_left_alone(host: Host) -> None:
    host.provide(a=(0, "3g.20gb"))
    host.hand_over(os.getppid(), identity(os.getppid()))
    assert host.clear() == [], "its scheduler lives"
    assert len(host.there()) == 1
    host.forsake()
    folder = going_on(host, RUN)
    assert host.clear() == [], "its run continues"
    assert len(host.there()) == 1
    folder.write_end(RunEnd("finished", time.time(), time.time(), 0, None, 0.0, 0, 0, 0))
    assert host.clear() == []
    assert (host.there(), host.recorded()) == ([], [])


def test_only_the_adopter_removes_what_is_adopted(host: Host) -> None:
    host.provide(a=(0, "3g.20gb"), b=(0, "1g.5gb"))
    host.forsake()
    host.devices.adopt(host.session, [RUN])
    host.provide(c=(0, "2g.10gb"))
    assert host.there() == [("2g.10gb", 2), ("3g.20gb", 4)], "what no run has adopted makes room"


def test_another_homes_devices_are_not_ours_to_remove(host: Host) -> None:
    host.provide(a=(0, "3g.20gb"))
    host.forsake()
    host.connection.execute("update provisioned_devices set home = '/elsewhere'")
    assert host.clear() == []
    assert (len(host.there()), host.recorded()) == (1, ["instance"])


def test_a_replacement_by_another_process_stays(host: Host) -> None:
    instance = host.provide(a=(0, "3g.20gb"))["a"].instance
    host.control.remove(host.gpus[0].uuid, instance.gpu_instance_id)
    same = host.control.create(host.gpus[0].uuid, "3g.20gb", 4)
    assert same.gpu_instance_id == instance.gpu_instance_id
    host.forsake()
    assert host.clear() == []
    assert (host.there(), host.recorded()) == ([("3g.20gb", 4)], [])


def test_nothing_of_what_was_made_outlives_a_restart_of_the_host(host: Host) -> None:
    host.provide(a=(0, "3g.20gb"))
    host.connection.execute("update provisioned_devices set boot_id = 'before'")
    assert host.clear() == []
    assert (host.there(), host.recorded()) == ([("3g.20gb", 4)], []), "whoever made that one, it was not we"


def test_a_failed_removal_is_reported_and_blocks_no_other(host: Host, mps: Path) -> None:
    host.provide(a=(0, "3g.20gb"), b=(2, "MPS"))
    nvml = Overridden(host.nvml, nvmlComputeInstanceDestroy=forbidden)
    host.forsake()
    [problem] = Devices(host.settings, MigControl(nvml)).clear(host.session)
    gpu = host.gpus[0].uuid
    assert problem == (
        "removing this MIG instance requires root: "
        f"sudo nvidia-smi mig -dci -i {gpu} -gi 1 && sudo nvidia-smi mig -dgi -i {gpu} -gi 1 (see {Page.MIG.address})"
    )
    assert host.recorded() == ["instance"]
    assert host.clear() == []
    assert host.recorded() == []


def test_a_mix_that_does_not_fit_makes_nothing(host: Host) -> None:
    with pytest.raises(GpuUnavailable) as caught:
        host.provide(a=(0, "3g.20gb"), b=(1, "4g.20gb"), c=(2, "MPS"))
    assert "4g.20gb does not fit on GPU 1 (NVIDIA A100-SXM4-40GB) beside 1g.5gb at 0, which is there" in str(
        caught.value
    )
    assert (host.there(), host.recorded()) == ([], [])


def test_making_without_rights_names_the_command_and_what_root_has_made_is_used(host: Host) -> None:
    nvml = Overridden(
        host.nvml, nvmlDeviceCreateGpuInstanceWithPlacement=forbidden, nvmlDeviceGetGpuInstanceById=forbidden
    )
    devices = Devices(host.settings, MigControl(nvml))
    jobs = {RUN: host.job(0, "3g.20gb"), OTHER: host.job(0, "3g.20gb")}
    with pytest.raises(NotPermitted) as caught:
        devices.provide(host.session, jobs)
    assert str(caught.value) == (
        "creating MIG instances requires root: sudo nvidia-smi mig -i 0 -cgi 3g.20gb:4,3g.20gb:0 -C; existing ones are used"
        f" (see {Page.MIG.address})"
    )
    assert host.recorded() == []
    for start in (4, 0):
        host.control.create(host.gpus[0].uuid, "3g.20gb", start)
    given = devices.provide(host.session, jobs)
    assert len({one.instance.uuid for one in given.values() if one.instance}) == 2
    assert host.recorded() == []
    for one in given.values():
        assert one.lock is not None
        one.lock.release()


@pytest.mark.parametrize(("gpu", "collocation"), [(0, "3g.20gb"), (2, "MPS")])
def test_a_gpu_with_other_processes_is_refused(host: Host, gpu: int, collocation: str) -> None:
    def processes(handle: object) -> list[SimpleNamespace]:
        return [SimpleNamespace(pid=os.getpid())]

    devices = Devices(host.settings, MigControl(Overridden(host.nvml, nvmlDeviceGetComputeRunningProcesses=processes)))
    with pytest.raises(GpuUnavailable) as caught:
        devices.provide(host.session, {RUN: host.job(gpu, collocation)})
    assert f"is in use by process {os.getpid()} (" in str(caught.value)
    assert str(caught.value).endswith("), which is not a run of this scheduler")
    assert (host.there(), host.recorded()) == ([], [])


def test_a_program_of_no_run_on_a_gpu_is_named_before_the_start(host: Host, database: Database) -> None:
    def processes(handle: object) -> list[SimpleNamespace]:
        return [SimpleNamespace(pid=os.getpid())]

    events: list[Event] = []
    quiet_host = QuietHost(HostCpu(), allowed=1e6)
    found = inventory(host.settings.simulate, host.settings.home)
    executor = LocalExecutor(database, host.settings, None, found, events.append, quiet_host=quiet_host)
    control = MigControl(Overridden(host.nvml, nvmlDeviceGetComputeRunningProcesses=processes))
    executor.__dict__["devices"] = Devices(host.settings, control)
    executor.check_host(host.session, "20/1", [host.job(2, "-")])
    name = quiet_host.cpu.name(os.getpid())
    assert [(one.kind, one.label, one.message) for one in events] == [
        ("warning", "20/1", f"GPU 2 has {name}: the times of runs will say little; --quiet-host waits")
    ]


def test_mig_mode_is_refused_where_it_is_not_what_it_takes(host: Host) -> None:
    with pytest.raises(GpuUnavailable, match=r"is not in MIG mode; to enable it: sudo nvidia-smi -i 2 -mig 1"):
        host.provide(a=(2, "1g.10gb"))
    with pytest.raises(GpuUnavailable, match=r"is in MIG mode, which allows no run on the whole GPU: .*-i 0 -mig 0"):
        host.provide(a=(0, "MPS"))


def test_a_daemon_serves_the_runs_of_a_workload(host: Host, mps: Path) -> None:
    given = host.provide(a=(2, "MPS"), b=(3, "MPS:30"))
    [record] = provisioned_devices.on_host(host.connection, os.uname().nodename)
    daemon = MpsDaemon(Path(record.folder or ""))
    assert daemon.running
    assert record.gpu_uuids == [host.gpus[2].uuid, host.gpus[3].uuid]
    shown = [{"CUDA_VISIBLE_DEVICES": host.gpus[number].uuid} for number in (2, 3)]
    assert given["a"].variables == shown[0] | daemon.variables()
    assert given["b"].variables == shown[1] | daemon.variables(30)
    later = host.devices.provide(host.session, {"c" * 32: host.job(3, "MPS:10")}, concurrent=[RUN])["c" * 32]
    assert later.variables == shown[1] | daemon.variables(10)
    apart = host.devices.provide(host.session, {"d" * 32: host.job(3, "MPS")})["d" * 32]
    assert apart.variables != shown[1] | daemon.variables()
    host.forsake()
    assert host.clear() == []
    assert (daemon.running, host.recorded()) == (False, [])


def test_a_daemon_that_does_not_start_is_removed_with_what_it_left(
    host: Host, mps: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_MPS_REFUSES", "no")
    with pytest.raises(GpuUnavailable, match="the MPS daemon did not start: no"):
        host.provide(a=(2, "MPS"))
    [record] = provisioned_devices.on_host(host.connection, os.uname().nodename)
    assert host.devices.clear(host.session) == []
    assert not Path(record.folder or "").exists()


def test_simulated_clients_need_no_program(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    given = host.provide(a=(2, "MPS"))["a"]
    assert Path(given.variables["CUDA_MPS_PIPE_DIRECTORY"]).is_dir()
    assert host.devices.clear(host.session) == []
    assert host.recorded() == []


def test_one_scheduler_at_a_time_divides_gpus(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hypergauge.scheduler.devices.devices._LOCK_SECONDS", 0.1)
    with (
        host.devices._locked(),
        pytest.raises(GpuUnavailable, match="another scheduler has been changing the GPUs' partitions"),
    ):
        host.provide(a=(0, "3g.20gb"))
    assert host.provide(a=(0, "3g.20gb"))
