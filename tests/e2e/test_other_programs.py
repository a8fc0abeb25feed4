"""Other programs on the host: the end of a schedule, the comparison and the cost of sharing name them, and decide nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.home import Home

pytestmark = [pytest.mark.quiet, pytest.mark.slow]

HEADER = "Experiment,Workload,Name,File,Params"


@pytest.fixture
def busy_loops() -> Iterator[None]:
    """A busy loop for each core, outside of all runs."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in os.sched_getaffinity(0)]
    yield
    for loop in loops:
        loop.kill()
        loop.wait()


@pytest.mark.usefixtures("busy_loops")
def test_busy_loops_beside_an_experiment_prevent_its_verdict(home: Home) -> None:
    script = home.folder / "burn.py"
    script.write_text("import time\nend = time.process_time() + 2\nwhile time.process_time() < end: pass\n")
    rows = [f"86,{workload},{name},{script},{name}" for workload, name in ((1, "a"), (2, "b"), (3, "a"), (3, "b"))]
    printed = " ".join(home.bench("schedule", home.sheet("busy", HEADER, rows).path).split())
    assert "! Other programs used the cores of 86/1/1 (" in printed

    found = home.json("interference", "86")
    [pair] = found["sets"]
    assert pair["verdict"] == "disturbed"
    assert found["advice"].startswith("Undecided: a + b (")
    assert "other_programs" in {notice["code"] for notice in found["notices"]}
    # The runs did their 2 s of work, however long they waited for a core.
    for member in pair["members"]:
        assert member["slowdown"]["cpu_time"]["ratio"] == pytest.approx(1, abs=0.3)

    compared = home.json("compare", "86")
    assert "other_programs" in {notice["code"] for notice in compared["notices"]}
    assert all(row["disturbed"] for row in compared["quality"])
    assert "ther programs used the cores" in home.bench("highlights", "86/3/1")
