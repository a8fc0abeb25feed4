"""The papers as experiments: their rows run, and the table has the values that `bench` shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hypergauge.scheduler.profilers import PROFILERS
from tests.support.home import Home

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
TORCH_PYTHON = os.environ.get("TORCH_PYTHON", sys.executable)
TINY = "--width 4 --pixels 16 --images 64 --batch-size 16 --epochs 2"
needs_torch = pytest.mark.skipif(
    PROFILERS["torch"].problem(TORCH_PYTHON) is not None,
    reason=f"{TORCH_PYTHON} has no PyTorch; name one that has: TORCH_PYTHON=…",
)


def paper(home: Home, name: str, experiment: int, *words: str) -> str:
    """Run a paper, and return what the command wrote."""
    done = subprocess.run(
        [sys.executable, "-m", "examples.papers", name, "--experiment", str(experiment), "--folder", home.folder, *words],
        cwd=ROOT, env=home.environment, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert max(map(len, done.stdout.partition("configuration ")[2].splitlines()), default=0) <= 80
    return done.stdout


def trained(home: Home, name: str, experiment: int, *workloads: int) -> str:
    """Run these workloads with tiny models, and return what the command wrote."""
    chosen = [word for workload in workloads for word in ("--workload", str(workload))]
    printed = paper(home, name, experiment, "--python", TORCH_PYTHON, "--size", "small", "--params", TINY, *chosen)
    runs = home.runs(experiment)
    assert {run["status"] for run in runs} == {"finished"}
    assert {run["attempt"] for run in runs} == {1, 2}
    assert {run["workload"] for run in runs} == {*workloads}
    return printed


def shown(printed: str, configuration: str, metric: str) -> tuple[str, str]:
    """Return the published and the measured value of a line of the table."""
    found = re.search(
        rf"^{re.escape(configuration)}.*? +{metric} +(-|\d+ x at most|[+-][\d.]+%) +(\S.*?) *$", printed, re.MULTILINE
    )
    assert found, printed
    return found[1], found[2]


@pytest.mark.parametrize(("name", "experiment"), [("deem23", 123), ("collocation", 124), ("euromlsys23", 125)])
def test_the_plan_needs_no_pytorch(home: Home, name: str, experiment: int) -> None:
    planned = paper(home, name, experiment, "--dry-run")
    assert set(re.findall(r"^ (\d+)/\d+/\d+ ", planned, re.MULTILINE)) == {str(experiment)}
    assert home.runs(experiment) == []


@needs_torch
def test_sets_have_the_values_of_interference(home: Home) -> None:
    printed = trained(home, "collocation", 120, 1, 5, 8)
    sets = home.json("interference", "120", "--metric", "epoch_time")["sets"]
    ratios = {one["workloads"][0]: one["members"][0]["slowdown"]["ratio"] for one in sets}
    for count, workload in ((2, "120/5"), (3, "120/8")):
        theirs, ours = shown(printed, f"{count} x resnet26 naive", "slow-down")
        assert (theirs, ours.split()[0]) == ("-", f"{ratios[workload]:.2f}x")
        assert shown(printed, f"{count} x resnet26 naive", "throughput")[1] == f"{count / ratios[workload]:.2f}x"
    best = max(count / ratios[workload] for count, workload in ((2, "120/5"), (3, "120/8")))
    theirs, ours = shown(printed, "best of all sets", "throughput")
    assert (theirs, ours.split()[0]) == ("4 x at most", f"{best:.2f}x")


@needs_torch
def test_an_overhead_stands_beside_the_published_one(home: Home) -> None:
    printed = trained(home, "euromlsys23", 121, 1, 2, 10)
    measured = {
        name: {run["run_id"] for run in home.runs(121) if run["name"] == f"light {name}"} for name in ("none", "top")
    }
    samples = home.query(
        "select distinct run_id from run_samples where run_id = any(%s)", [*measured["none"], *measured["top"]]
    )
    assert {row["run_id"] for row in samples} == measured["top"]
    theirs, ours = shown(printed, "light top", "epoch_time")
    assert theirs == "-0.8%"
    seconds = {
        name: home.query(
            "select avg(mine)::float8 as mean from (select avg(extract(epoch from ended_at - started_at)) as mine "
            "from spans where kind = 'epoch' and run_id = any(%s) group by run_id) of_runs",
            [*runs],
        )[0]["mean"]
        for name, runs in measured.items()
    }  # fmt: skip
    assert float(ours.split("%")[0]) == pytest.approx(100 * (seconds["top"] / seconds["none"] - 1), abs=0.2)
    assert shown(printed, "light torch", "epoch_time")[0] == "-", "no published time of this profiler"


@needs_torch
def test_runs_are_compared_within_and_between_workloads(home: Home) -> None:
    printed = trained(home, "deem23", 122, 1, 2, 5)
    for kind in ("intra: resnet50 / resnet18", "inter: resnet50 beside"):
        theirs, ours = shown(printed, kind, "epoch_time")
        assert theirs == "-"
        assert re.fullmatch(r"[+-][\d.]+% \(.+\)", ours)
    again = paper(home, "deem23", 122, "--show", "--workload", "1", "--workload", "2", "--workload", "5")
    assert shown(again, "intra: resnet50 / resnet18", "epoch_time") == shown(
        printed, "intra: resnet50 / resnet18", "epoch_time"
    )
    assert len(home.runs(122)) == 2 * 4
