"""Simulated GPUs through the whole pipeline: each run has its own part, and the energy adds up."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hypergauge.gpu import inventory
from hypergauge.simulation import World
from tests.conftest import NewFolder
from tests.support.fakes.mps import installed_mps
from tests.support.home import Home
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.quiet, pytest.mark.slow]

GPUS = "2xA100,1xA100:mig,1xH100"
HEADER = "Experiment,Workload,Name,Devices,Collocation,File,Params"
# The paper's four rows, and two that share what the last of them has to itself.
ROWS = [
    "20,1,alone,0,-,{scripts}/clocked.py,--seconds 6",
    "20,2,left,2,3g.20gb,{scripts}/clocked.py,--seconds 6",
    "20,2,right,2,3g.20gb,{scripts}/clocked.py,--seconds 4",
    "20,3,client,0,MPS,{scripts}/clocked.py,--seconds 5",
    "20,4,one,3,-,{scripts}/clocked.py,--seconds 7",
    "20,4,other,3,-,{scripts}/clocked.py,--seconds 5 --megabytes 256",
]
ATTRIBUTED, IDLE, OTHER = (
    "bench_gpu_attributed_energy_joules_total",
    "bench_gpu_idle_energy_joules_total",
    "bench_gpu_other_energy_joules_total",
)


@dataclass
class GpuHome(Home):
    """A home whose host has simulated GPUs."""

    programs: Path = Path()

    @property
    def environment(self) -> dict[str, str]:
        path = f"{self.programs}{os.pathsep}{os.environ['PATH']}"
        return {**super().environment, "BENCH_SIMULATE": GPUS, "PATH": path}

    @property
    def world(self) -> World:
        """The simulated world that all processes of the home share."""
        return World.open(GPUS, self.path / "simulated")


@pytest.fixture(scope="module")
def place(new_folder: NewFolder) -> Iterator[GpuHome]:
    """A stack on a host with four simulated GPUs."""
    folder = new_folder()
    with GpuHome(folder / "home", folder / "work", programs=installed_mps(folder / "bin")).stack() as home:
        yield home


def settled(home: Home) -> None:
    """Wait until all samples of the runs are written."""
    query = "select from runs where started_at is not null having bool_and(summarised) and not exists (select from retag_queue)"
    wait_for(lambda: home.query(query), "the last sample")


@pytest.fixture(scope="module")
def runs(place: GpuHome) -> dict[str, dict[str, Any]]:
    """The runs of the paper's rows, by name."""
    place.start("schedule", place.sheet("paper", HEADER, ROWS).path).wait()
    settled(place)
    return {run["name"]: run for run in place.runs(20)}


def devices(home: Home, run: dict[str, Any], *scopes: str) -> set[str]:
    """Return the GPUs and instances whose series a run has in these scopes."""
    found = home.query(
        "select distinct device from run_samples where run_id = %s and scope = any(%s)", run["run_id"], list(scopes)
    )
    return {row["device"] for row in found}


def total(home: Home, run: dict[str, Any], quantity: str, scope: str) -> dict[str, Any]:
    """Return a run's summary of one quantity."""
    [row] = home.query(
        "select mean, p50, max, total from run_summary where run_id = %s and quantity = %s and scope = %s and metric is null",
        run["run_id"], quantity, scope,
    )  # fmt: skip
    return row


def test_all_rows_finish_and_nothing_is_left(place: GpuHome, runs: dict[str, dict[str, Any]]) -> None:
    assert {run["status"] for run in runs.values()} == {"finished"}
    assert place.query("select * from provisioned_devices") == []
    assert [len(gpu.mig) for gpu in inventory(GPUS, place.path).gpus] == [0, 0, 0, 0]


def test_the_runs_are_marked_as_simulated(place: GpuHome, runs: dict[str, dict[str, Any]]) -> None:
    assert all(run["simulated"] for run in place.json("list", "20"))
    compared = place.json("compare", "20")["runs"]
    assert all(run["simulated"] and "gpu_energy_joules" not in run for run in compared)
    assert "on simulated GPUs" in place.bench("compare", "20")
    assert all(run["gpu_energy_joules"] >= 0 for run in place.json("compare", "20", "--simulated")["runs"])


def test_a_run_on_an_instance_has_its_series_and_no_other(place: GpuHome, runs: dict[str, dict[str, Any]]) -> None:
    # Another test has a run of its own on an instance.
    placements = place.query(
        "select run_id, gpu_uuid, gpu_instance_id, mig_uuid from placements where mig_uuid is not null and run_id = any(%s)",
        [run["run_id"] for run in runs.values()],
    )
    assert len({row["mig_uuid"] for row in placements}) == 2
    own = {row["run_id"]: f"{row['gpu_uuid']}/{row['gpu_instance_id']}" for row in placements}
    for name in ("left", "right"):
        assert devices(place, runs[name], "instance") == {own[runs[name]["run_id"]]}
        utilization = total(place, runs[name], "gpu_utilization", "instance")["mean"]
        assert utilization > 0.2
        # A simulated GPU's work follows from the CPU time of its processes.
        used = total(place, runs[name], "cpu_usage", "process")["mean"]
        assert utilization == pytest.approx(used, rel=0.4)


def test_a_run_that_is_alone_has_the_whole_gpu(place: GpuHome, runs: dict[str, dict[str, Any]]) -> None:
    [placement] = place.query("select gpu_uuid from placements where run_id = %s", runs["alone"]["run_id"])
    assert devices(place, runs["alone"], "instance") == {placement["gpu_uuid"]}
    assert devices(place, runs["alone"], "device") == set()


def test_runs_that_share_have_their_own_processes(place: GpuHome, runs: dict[str, dict[str, Any]]) -> None:
    for name in ("one", "other", "client"):
        assert total(place, runs[name], "gpu_energy_attributed", "process")["total"] > 0
    # In the middle of a run: while it begins, a copy of its memory comes and goes.
    one, other = (total(place, runs[name], "gpu_memory_used", "process")["p50"] for name in ("one", "other"))
    assert other - one == pytest.approx(192 * 2**20, rel=0.2)
    both = place.query(
        "select max(value) as max from run_samples where run_id = %s and quantity = 'gpu_memory_used' and scope = 'device'",
        runs["one"]["run_id"],
    )[0]["max"]
    assert both > one + other * 0.9


def test_the_parts_of_the_energy_add_up_to_the_whole_gpu(place: GpuHome, runs: dict[str, dict[str, Any]]) -> None:
    joules = """
        select labels ->> 'UUID' as uuid, sum(value * dt) filter (where metric = 'bench_gpu_energy_joules_total') as whole,
               sum(value * dt) filter (where metric = any(%s)) as parts,
               sum(value * dt) filter (where metric = 'bench_gpu_attributed_energy_joules_total') as runs
        from samples join series using (series_id) group by 1 having bool_or(metric = 'bench_gpu_energy_joules_total')
        """
    found = place.query(joules, [ATTRIBUTED, IDLE, OTHER])
    assert len(found) == 4
    for row in found:
        assert row["parts"] == pytest.approx(row["whole"], rel=0.01)
    assert sum(row["runs"] is not None and row["runs"] > 0 for row in found) == 3
    stored = place.query(
        "select sum(total) as total from run_summary where metric = 'bench_gpu_attributed_energy_joules_total'"
    )
    assert stored[0]["total"] == pytest.approx(sum(row["runs"] or 0.0 for row in found), rel=0.01)


def test_simulated_runs_are_marked(place: GpuHome, runs: dict[str, dict[str, Any]]) -> None:
    assert place.query("select distinct simulated from run_quality") == [{"simulated": True}]
    unmarked = place.query(
        "select distinct metric from series where (metric like 'bench_gpu%%' or metric like 'DCGM%%')"
        " and labels ->> 'simulated' is distinct from 'true'"
    )
    assert unmarked == []


def test_a_gpu_that_disappears_leaves_the_others_and_returns(place: GpuHome, runs: dict[str, dict[str, Any]]) -> None:
    newest = """
        select extract(epoch from now() - max(time))::float8 as age from samples join series using (series_id)
        where metric = 'bench_gpu_power_watts' and labels ->> 'gpu' = %s
        """

    def age(gpu: str) -> float:
        return float(place.query(newest, gpu)[0]["age"])

    wait_for(lambda: max(age("0"), age("1")) < 4, "both GPUs")
    place.world.lose(1)
    try:
        wait_for(lambda: age("1") > 6, "silence")
        wait_for(lambda: age("0") < 4, "the other GPU")
    finally:
        place.world.restore(1)
    wait_for(lambda: age("1") < 4, "its return")


def test_a_repartition_in_the_middle(place: GpuHome, runs: dict[str, dict[str, Any]]) -> None:
    sheet = place.sheet("again", HEADER, ["21,1,small,2,1g.5gb,{scripts}/clocked.py,--seconds 4"])
    place.start("schedule", sheet.path).wait()
    settled(place)
    [run] = place.runs(21)
    [placement] = place.query("select gpu_uuid, gpu_instance_id from placements where run_id = %s", run["run_id"])
    assert devices(place, run, "instance") == {f"{placement['gpu_uuid']}/{placement['gpu_instance_id']}"}
    assert total(place, run, "gpu_energy_attributed", "process")["total"] > 0
