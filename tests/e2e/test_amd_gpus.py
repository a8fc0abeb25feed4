"""AMD's GPUs, and Apple's beside them, through the whole pipeline: variables, placements, values of runs, refusals."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import NewFolder
from tests.support.fakes import amdsmi
from tests.support.home import Home, environment_of
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow

HEADER = "Experiment,Workload,Name,Devices,Collocation,File,Params"
FIRST, SECOND = "GPU-9fff74b9-0000-1000-8044-4a2fb30adeb0", "GPU-b7ff74b9-0000-1000-80d1-81671a192e45"
MODEL = "AMD Instinct Mi325X VF"
# Two GPUs with different values: `mi325x` has 47 % and 287 W.
GPUS = (
    "mi325x(0)",
    "mi325x(1, activity={'gfx_activity': 90}, power={'current_socket_power': 611})",
)
MACMON = Path(__file__).parents[1] / "data" / "tools" / "macmon.jsonl"


@pytest.fixture(scope="module")
def place(new_folder: NewFolder) -> Iterator[Home]:
    """A stack on a host with two GPUs of AMD, whose shell names others."""
    folder = new_folder()
    variables = {
        "PYTHONPATH": str(amdsmi.install(folder / "rocm", *GPUS)),
        "CUDA_VISIBLE_DEVICES": "3",
        "HIP_VISIBLE_DEVICES": "5",
    }
    with Home(folder / "home", folder / "work", variables).stack() as home:
        yield home


def placements(home: Home, experiment: int) -> list[str | None]:
    """Return the GPUs of an experiment's runs, by position."""
    rows = home.query(
        "select gpu_uuid from placements join runs using (run_id) join workloads using (workload_id)"
        " where experiment_id = %s order by workload, position, gpu_uuid",
        experiment,
    )
    return [row["gpu_uuid"] for row in rows]


def visible(run: dict[str, Any]) -> dict[str, str]:
    """Return the variables of a running run that select GPUs."""
    return {name: value for name, value in environment_of(run["run_id"]).items() if name.endswith("VISIBLE_DEVICES")}


def values(home: Home, run: dict[str, Any], quantity: str) -> set[tuple[str, str, float]]:
    """Return scope, device and mean of a run's summaries."""
    rows = home.query(
        "select scope, device, mean from run_summary where run_id = %s and quantity = %s and device is not null",
        run["run_id"],
        quantity,
    )
    return {(row["scope"], row["device"], round(row["mean"], 3)) for row in rows}


def test_each_run_sees_its_own_gpus_and_has_their_values(place: Home) -> None:
    rows = ["first,0,-", "second,b7ff74b9-0000-1000-80d1-81671a192e45,-", "both,1+amd:0,-", "none,,-"]
    gate = place.folder / "gate-110"
    lines = [f"110,{number // 2 + 1},{row},{{scripts}}/gate.py,{gate}-{number // 2}" for number, row in enumerate(rows)]
    sheet = place.sheet("amd", HEADER, lines)
    plan = " ".join(place.bench("schedule", sheet.path, "--dry-run").split())
    assert "none (AMD GPUs are hidden)" in plan
    schedule = place.start("schedule", sheet.path)

    alone = place.running(110, 2)
    assert [visible(run) for run in alone] == [
        {"ROCR_VISIBLE_DEVICES": "GPU-9f444a2fb30adeb0", "HIP_VISIBLE_DEVICES": "0"},
        {"ROCR_VISIBLE_DEVICES": "GPU-b7d181671a192e45", "HIP_VISIBLE_DEVICES": "0"},
    ]
    samples = "select from run_samples where run_id = %s and quantity = 'gpu_power' having count(*) > 2"
    wait_for(lambda: all(place.query(samples, run["run_id"]) for run in alone), "samples of both runs")
    Path(f"{gate}-0").touch()
    wait_for(lambda: [run["status"] for run in place.runs(110)][:2] == ["finished"] * 2, "the first workload")
    together = place.running(110, 2)
    assert [visible(run) for run in together] == [
        {"ROCR_VISIBLE_DEVICES": "GPU-b7d181671a192e45,GPU-9f444a2fb30adeb0", "HIP_VISIBLE_DEVICES": "0,1"},
        {"ROCR_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "-1"},
    ]
    Path(f"{gate}-1").touch()
    schedule.wait()

    assert placements(place, 110) == [FIRST, SECOND, FIRST, SECOND, None]
    wait_for(lambda: place.query("select from runs having bool_and(summarised)"), "the summaries")
    first, second, both, none = place.runs(110)
    assert values(place, first, "gpu_power") == {("instance", FIRST, 287.0)}
    assert values(place, second, "gpu_power") == {("instance", SECOND, 611.0)}
    assert values(place, second, "gpu_utilization") == {("instance", SECOND, 0.9)}
    assert values(place, none, "gpu_power") == set()
    compared = place.json("compare", "110/1")["runs"]
    assert [run["gpu_power_watts"] for run in compared] == pytest.approx([287, 611])
    assert [run["gpu_utilization"] for run in compared] == pytest.approx([0.47, 0.9])
    assert both["status"] == "finished"


def test_two_runs_on_one_gpu_share_its_values(place: Home) -> None:
    gate = place.folder / "gate-111"
    lines = [f"111,1,{name},amd:1,-,{{scripts}}/gate.py,{gate}" for name in ("left", "right")]
    schedule = place.start("schedule", place.sheet("shared", HEADER, lines).path)
    samples = "select from run_samples where run_id = %s and quantity = 'gpu_power' having count(*) > 2"
    runs = place.running(111, 2)
    wait_for(lambda: all(place.query(samples, run["run_id"]) for run in runs), "samples of both runs")
    gate.touch()
    schedule.wait()
    wait_for(lambda: place.query("select from runs having bool_and(summarised)"), "the summaries")
    assert all(("device", SECOND, 611.0) in values(place, run, "gpu_power") for run in runs)
    assert place.query("select from run_quality where run_id = %s and shared", runs[0]["run_id"])


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("amd:2,-", "2:9: Devices: device amd:2 does not exist: this host has amd:0, amd:1"),
        ("nvidia:0,-", "2:9: Devices: device nvidia:0 does not exist: this host has amd:0, amd:1"),
        ("adm:0,-", "2:9: Devices: 'adm:0' has an unknown vendor 'adm' (did you mean 'amd'?)"),
        ("0+amd:0,-", "2:9: Devices: 0+amd:0 names a device twice"),
        ("0,MPS:50", f"2:11: Collocation: MPS:50 needs an NVIDIA GPU, but AMD GPU 0 ({MODEL}) has no MPS: write '-'"),
        ("1,3g.20gb", f"2:11: Collocation: 3g.20gb needs an NVIDIA GPU, but AMD GPU 1 ({MODEL}) has no MIG: write '-'"),
    ],
)
def test_impossible_devices_are_refused(place: Home, row: str, message: str) -> None:
    sheet = place.sheet("refused", HEADER, [f"112,1,a,{row},{{scripts}}/nothing.py,"])
    printed = place.bench("schedule", sheet.path, status=2)
    assert f"{sheet.path}:{message}" in printed
    assert place.runs(112) == []
    assert sheet.column("Status") == [""]


def test_one_command_on_a_gpu(place: Home) -> None:
    assert "--devices 0+amd:0 names a device twice" in place.bench(
        "run", "--devices", "0+amd:0", "--", "true", status=2
    )
    named = ["run", "--name", "one", "--devices", "amd:1"]
    place.bench(*named, "--", "sh", "-c", "echo $ROCR_VISIBLE_DEVICES,$HIP_VISIBLE_DEVICES,$CUDA_VISIBLE_DEVICES")
    [run] = place.query("select run_id, devices from runs where name = 'one'")
    assert place.output(run["run_id"]) == b"GPU-b7d181671a192e45,0,\n"
    assert run["devices"] == SECOND
    repeated = place.bench("schedule", "--from-run", run["run_id"])
    assert "one" in repeated


def test_doctor_counts_the_gpus_of_each_vendor(place: Home) -> None:
    printed = " ".join(place.bench("doctor").split())
    assert "AMD GPU 1 ok AMD Instinct Mi325X VF" in printed
    assert "AMD GPUs ok 2, measured by amd" in printed
    [gpu, _] = place.json("status")["gpus"]
    assert (gpu["vendor"], gpu["uuid"], gpu["runtime_id"]) == ("amd", FIRST, "GPU-9f444a2fb30adeb0")


def test_a_host_of_two_vendors(place: Home) -> None:
    """Simulated GPUs stand for NVIDIA's."""
    place.variables["BENCH_SIMULATE"] = "1xH100"
    try:
        sheet = place.sheet(
            "mixed", HEADER, ["113,1,a,amd:0,-,{scripts}/nothing.py,", "113,1,b,0,-,{scripts}/nothing.py,"]
        )
        plan = " ".join(place.bench("schedule", sheet.path, "--dry-run").split())
        assert "amd:0 (NVIDIA GPUs are hidden)" in plan
        assert "0 (AMD GPUs are hidden)" in plan
        refused = place.sheet("unknown", HEADER, ["113,1,a,2,-,{scripts}/nothing.py,"])
        assert "device 2 does not exist: this host has GPUs 0, amd:0, amd:1" in place.bench(
            "schedule", refused.path, status=2
        )
        assert "NVIDIA GPUs ok 1, measured by nvml" in " ".join(place.bench("doctor").split())
    finally:
        del place.variables["BENCH_SIMULATE"]


def test_apples_gpu_is_the_only_one(new_folder: NewFolder) -> None:
    folder = new_folder()
    programs = folder / "bin"
    programs.mkdir()
    line = MACMON.read_text().splitlines()[1]
    (programs / "macmon").write_text(f"#!/bin/sh\nwhile :; do\n  echo '{line}'\n  sleep 0.5\ndone\n")
    (programs / "macmon").chmod(0o755)
    home = Home(folder / "home", folder / "work", {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"})
    with home.stack():
        gate = home.folder / "gate"
        sheet = home.sheet("apple", HEADER, [f"114,1,train,0,-,{{scripts}}/gate.py,{gate}"])
        schedule = home.start("schedule", sheet.path)
        [run] = home.running(114)
        samples = "select from run_samples where run_id = %s and quantity = 'gpu_power' having count(*) > 2"
        wait_for(lambda: home.query(samples, run["run_id"]), "samples of the run")
        gate.touch()
        schedule.wait()
        assert placements(home, 114) == [f"APPLE-{platform.node()}"]
        wait_for(lambda: home.query("select from runs having bool_and(summarised)"), "the summaries")
        [(scope, device, watts)] = values(home, run, "gpu_power")
        assert (scope, device) == ("instance", f"APPLE-{platform.node()}")
        assert watts > 0
        assert "Apple GPUs ok 1, measured by apple" in " ".join(home.bench("doctor").split())
        home.bench("schedule", home.sheet("mps", HEADER, ["114,2,a,0,MPS,{scripts}/nothing.py,"]).path, status=2)
