"""Experiment files of radT and of its paper, run unchanged."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator

import pytest

from tests.conftest import NewFolder
from tests.support.fakes.mps import installed_mps
from tests.support.home import SCRIPTS, Home, Sheet

EXPERIMENTS = SCRIPTS.parent / "experiments"
BENCH_TOML = """
[environments.pytorch]
entry_point = "{python} train.py --model {model} --data {data} {params}"
variables = {CUDNN_BENCHMARK = "1"}
"""


@pytest.fixture(scope="module")
def place(new_folder: NewFolder) -> Iterator[Home]:
    """A stack on a host with three simulated GPUs, the third in MIG mode, and a script to run on them."""
    folder = new_folder()
    path = f"{installed_mps(folder / 'bin')}{os.pathsep}{os.environ['PATH']}"
    home = Home(folder / "home", folder / "work", {"BENCH_SIMULATE": "2xA100,1xA100:mig", "PATH": path})
    home.folder.mkdir(parents=True)
    shutil.copy(SCRIPTS / "surroundings.py", home.folder / "train.py")
    (home.folder / "bench.toml").write_text(BENCH_TOML)
    with home.stack():
        yield home


def test_radts_own_example_runs_unchanged(place: Home) -> None:
    sheet = Sheet(place.folder / "radt.csv")
    shutil.copy(EXPERIMENTS / "radt_readme.csv", sheet.path)
    place.bench("schedule", sheet.path)
    runs = place.runs(1)
    assert [run["status"] for run in runs] == ["finished"] * 5
    printed = [json.loads(place.output(run["run_id"]).splitlines()[0]) for run in runs]
    assert [one["arguments"] for one in printed] == [["--batch-size=128"]] * 4 + [["--batch-size=256"]]
    seen = [one["variables"]["CUDA_VISIBLE_DEVICES"].partition("-")[0] for one in printed]
    assert seen == ["GPU", "GPU", "MIG", "MIG", "GPU"]


def test_the_papers_figure_runs_but_for_its_misprint(place: Home) -> None:
    text = (EXPERIMENTS / "deem23.csv").read_text()
    path = place.folder / "deem23.csv"
    path.write_text(text)
    printed = place.bench("schedule", path, status=2)
    assert f"{path}:5:10: Collocation: unknown collocation 'PPS' (did you mean 'MPS'?)" in printed
    path.write_text(text.replace("PPS", "MPS"))
    place.bench("schedule", path)
    runs = place.runs(20)
    assert [run["status"] for run in runs] == ["finished"] * 4
    assert runs[1]["params"] == {"model": "resnet50", "data": "/data/imagenet", "batch-size": "128"}
    found = json.loads(place.output(runs[3]["run_id"]).splitlines()[0])
    assert found["arguments"] == ["--model", "resnet50", "--data", "/data/imagenet", "--batch-size=128"]
    assert found["variables"]["CUDNN_BENCHMARK"] == "1"
    assert "CUDA_MPS_PIPE_DIRECTORY" in found["variables"]
