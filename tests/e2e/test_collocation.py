"""GPU sharing: MIG instances and MPS daemons, provisioned for runs and removed after any end."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from hypergauge.gpu import inventory, load
from hypergauge.gpu.mig import MigControl
from tests.support.fakes import mps as fake_mps
from tests.support.home import Home, Sheet, Started, environment_of, supervisor_of
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow

HEADER = "Experiment,Workload,Name,Devices,Collocation,File,Params"
# The first two are divided, the third as well and by another user, the others are shared.
SPECIFICATION = "2xA100:mig,1xA100:1x1g.5gb,2xH100"


@dataclass
class HomeWithGpus(Home):
    """A home with simulated GPUs, and the stand-in for NVIDIA's program on ``PATH``."""

    @property
    def environment(self) -> dict[str, str]:
        programs = fake_mps.installed_mps(self.folder / "programs")
        before = super().environment
        return {**before, "BENCH_SIMULATE": SPECIFICATION, "PATH": f"{programs}{os.pathsep}{before['PATH']}"}

    def instances(self, gpu: int) -> list[tuple[str, int | None]]:
        """Return profile and place of each MIG instance that there is."""
        found = inventory(SPECIFICATION, self.path).gpus[gpu]
        layout = MigControl(load(SPECIFICATION, self.path)).layout(found.uuid)
        return sorted((one.profile.name, one.start) for one in layout.instances)

    def placements(self, experiment: int) -> list[dict[str, Any]]:
        """Return where the runs of an experiment were."""
        return self.query(
            "select p.* from placements p join runs using (run_id) join workloads using (workload_id)"
            " where experiment_id = %s order by position, attempt, gpu_uuid",
            experiment,
        )

    def nothing_is_left(self) -> None:
        """Check that there is nothing that was not there before."""
        assert self.query("select * from provisioned_devices") == []
        assert [self.instances(gpu) for gpu in range(3)] == [[], [], [("1g.5gb", 0)]]
        assert self.daemons() == []

    def daemons(self) -> list[psutil.Process]:
        """Return the MPS daemons that run."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if str(self.folder / "programs" / fake_mps.NAME) in process.cmdline():
                    found.append(process)
        return [process for process in found if process.status() != psutil.STATUS_ZOMBIE]

    def end(self) -> None:
        super().end()
        for daemon in self.daemons():
            daemon.kill()


@pytest.fixture(scope="module")
def place() -> Iterator[HomeWithGpus]:
    """A home with simulated GPUs, with its stack up."""
    with (
        tempfile.TemporaryDirectory(prefix="bench-e2e-") as folder,
        HomeWithGpus(Path(folder) / "home", Path(folder) / "work").stack() as home,
    ):
        yield home


def scene(home: Home, experiment: int, *rows: str) -> tuple[Sheet, Path, Started]:
    """Start a file of one workload whose runs wait at one gate: a row is ``devices,collocation``."""
    gate = home.folder / f"gate-{experiment}"
    lines = [f"{experiment},1,run,{row},{{scripts}}/gate.py,{gate}" for row in rows]
    sheet = home.sheet(f"shared-{experiment}", HEADER, lines)
    return sheet, gate, home.start("schedule", sheet.path)


def finish(home: HomeWithGpus, made: tuple[Sheet, Path, Started]) -> None:
    """Let the runs of a scene end, and see that nothing of it stays."""
    sheet, gate, schedule = made
    gate.touch()
    schedule.wait()
    assert set(sheet.column("Status")) == {"finished"}
    home.nothing_is_left()


def test_each_row_with_a_profile_gets_an_instance_of_its_own(place: HomeWithGpus) -> None:
    made = scene(place, 50, "0,3g.20gb", "0,3g.20gb")
    runs = place.running(50, 2)
    assert place.instances(0) == [("3g.20gb", 0), ("3g.20gb", 4)]
    placements = place.placements(50)
    gpu = inventory(SPECIFICATION, place.path).gpus[0]
    assert [one["gpu_uuid"] for one in placements] == [gpu.uuid] * 2
    assert {one["gpu_instance_id"]: one["mig_uuid"] for one in placements} == {
        instance.gpu_instance_id: instance.uuid for instance in gpu.mig
    }
    seen = [environment_of(run["run_id"])["CUDA_VISIBLE_DEVICES"] for run in runs]
    assert seen == [one["mig_uuid"] for one in placements]
    finish(place, made)


def test_an_instance_that_is_there_is_used_and_stays(place: HomeWithGpus) -> None:
    [before] = inventory(SPECIFICATION, place.path).gpus[2].mig
    made = scene(place, 51, "2,1g.5gb", "2,1g.5gb", "2,3g.20gb")
    place.running(51, 3)
    assert place.instances(2) == [("1g.5gb", 0), ("1g.5gb", 3), ("3g.20gb", 4)]
    assert [one["mig_uuid"] == before.uuid for one in place.placements(51)] == [True, False, False]
    finish(place, made)
    assert inventory(SPECIFICATION, place.path).gpus[2].mig == (before,)


def test_instances_that_do_not_fit_are_refused_before_the_start(place: HomeWithGpus) -> None:
    sheet, _, schedule = scene(place, 52, "2,4g.20gb")
    printed = schedule.wait(status=2)
    assert f"{sheet.path}:2:12: Collocation: 4g.20gb " in printed
    assert "3g.20gb, or 2g.10gb, or 1g.10gb" in printed
    assert place.runs(52) == []
    assert sheet.column("Status") == [""]


def test_rows_under_mps_share_a_daemon_of_their_workload(place: HomeWithGpus) -> None:
    made = scene(place, 53, "3,MPS", "3+4,MPS:40", "3,-")
    whole, limited, beside = (environment_of(run["run_id"]) for run in place.running(53, 3))
    assert whole["CUDA_MPS_PIPE_DIRECTORY"] == limited["CUDA_MPS_PIPE_DIRECTORY"]
    assert (whole.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), limited["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"]) == (
        None,
        "40",
    )
    assert not [name for name in beside if name.startswith("CUDA_MPS_")]
    [daemon] = place.daemons()
    assert daemon.environ()["CUDA_VISIBLE_DEVICES"] == limited["CUDA_VISIBLE_DEVICES"]
    folder = Path(whole["CUDA_MPS_PIPE_DIRECTORY"]).parent
    assert folder.is_dir()
    finish(place, made)
    assert not folder.exists()


def test_a_restarted_scheduler_uses_its_provisioned_devices(place: HomeWithGpus) -> None:
    sheet, gate, schedule = scene(place, 54, "0,3g.20gb", "0,4g.20gb", "3,MPS")
    before = place.running(54, 3)
    schedule.kill()
    there, daemon = place.instances(0), place.daemons()
    other = place.sheet("another", HEADER, ["55,1,run,0,1g.5gb,{scripts}/clocked.py,--seconds 0"])
    refused = place.bench("schedule", other.path, status=1)
    assert "1g.5gb does not fit on GPU 0" in refused
    assert "4g.20gb at 0, 3g.20gb at 4" in refused
    assert (other.column("Status"), place.runs(55)) == ([""], [])
    again = place.start("schedule", sheet.path)
    wait_for(lambda: again.output.read_text().count("attached") == 3, "attaching")
    assert (place.instances(0), place.daemons()) == (there, daemon)
    finish(place, (sheet, gate, again))
    assert [run["run_id"] for run in place.runs(54)] == [run["run_id"] for run in before]


def test_orphaned_runs_leave_no_devices(place: HomeWithGpus) -> None:
    _, gate, schedule = scene(place, 56, "0,2g.10gb", "1,7g.40gb", "3,MPS:10")
    place.running(56, 3)
    schedule.kill()
    gate.touch()
    wait_for(lambda: not place.query("select from provisioned_devices"), "the end of what was made")
    place.nothing_is_left()


def test_devices_lost_with_their_supervisors_are_created_again(place: HomeWithGpus) -> None:
    sheet, gate, schedule = scene(place, 57, "0,7g.40gb", "3,MPS")
    before = place.running(57, 2)
    schedule.kill()
    for run in before:
        supervisor_of(run["run_id"]).kill()
    [daemon] = place.daemons()
    again = place.start("schedule", sheet.path)
    wait_for(
        lambda: place.instances(0) == [("7g.40gb", 0)] and place.daemons() not in ([], [daemon]), "the next attempt"
    )
    finish(place, (sheet, gate, again))
    assert [run["status"] for run in place.runs(57)] == ["failed", "finished"] * 2


def test_an_interrupt_leaves_nothing_however_often(place: HomeWithGpus) -> None:
    rows = [f"58,1,run,{row},{{scripts}}/gate.py,{place.folder}/never --deaf" for row in ("0,1g.5gb", "4,MPS")]
    schedule = place.start("schedule", place.sheet("deaf", HEADER, rows).path)
    place.running(58, 2)
    schedule.interrupt()
    schedule.interrupt()
    schedule.wait(status=1)
    assert {run["status"] for run in place.runs(58)} == {"stopped"}
    place.nothing_is_left()


def test_two_schedulers_share_a_gpu_and_neither_disturbs_the_other(place: HomeWithGpus) -> None:
    one, other = scene(place, 59, "1,3g.20gb"), scene(place, 60, "1,3g.20gb")
    place.running(59)
    place.running(60)
    assert place.instances(1) == [("3g.20gb", 0), ("3g.20gb", 4)]
    one[1].touch()
    one[2].wait()
    assert len(place.instances(1)) == 1
    assert environment_of(place.running(60)[0]["run_id"])["CUDA_VISIBLE_DEVICES"] == place.placements(60)[0]["mig_uuid"]
    finish(place, other)


def test_one_command_may_share_too(place: HomeWithGpus) -> None:
    printed = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'])"
    options = ["--devices", "1", "--collocation", "2g.10gb"]
    place.bench("run", *options, "--", sys.executable, "-c", printed)
    [placement] = place.placements(1_000_000)
    assert place.output(placement["run_id"]).decode() == f"{placement['mig_uuid']}\n"
    assert "--devices" in place.bench("run", "--collocation", "MPS", "--", "true", status=2)
    refused = place.bench("run", "--devices", "3", "--collocation", "1g.10gb", "--", "true", status=2)
    assert "GPU 3 (NVIDIA H100 80GB HBM3)" in refused
    place.nothing_is_left()


def test_the_plan_shows_how_gpus_will_be_divided(place: HomeWithGpus) -> None:
    rows = ["2,1g.5gb", "2,3g.20gb", "3,MPS:40"]
    sheet = place.sheet("plan", HEADER, [f"61,1,run,{row},{{scripts}}/clocked.py,--token s3cret" for row in rows])
    shown = place.bench("schedule", "--dry-run", sheet.path)
    assert "MPS:40" in shown
    assert "s3cret" not in shown
    assert "1g.5gb at 0 (used), 3g.20gb at 4 (new)" in shown
    place.nothing_is_left()
