"""`bench interference` on a small real experiment, against the runs' own clocks."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from tests.support.home import Home

pytestmark = [pytest.mark.quiet, pytest.mark.slow]

HEADER = "Experiment,Workload,Name,File,Params"
SECONDS = {"short": 2, "long": 3}


class Clocks:
    """The times that a run has written down: its begin, and the end of each step."""

    def __init__(self, folder: Path, run: dict[str, Any]) -> None:
        times = [float(line) for line in (folder / run["run_id"]).read_text().split()]
        self.begins, self.ends = times[0], times[-1]
        self.elapsed = np.array(times) - times[0]

    def step_at(self, time: float) -> float:
        return float(np.interp(time - self.begins, self.elapsed, range(len(self.elapsed))))

    def seconds_to(self, step: float) -> float:
        return float(np.interp(step, range(len(self.elapsed)), self.elapsed))


def test_slowdowns_and_makespan_are_those_of_clocks_outside(home: Home) -> None:
    folder = home.folder / "clocks"
    folder.mkdir()
    rows = [(1, "short"), (2, "long"), (3, "short"), (3, "long")]
    lines = [f"85,{workload},{name},{{scripts}}/own_clock.py,{folder} {SECONDS[name]}" for workload, name in rows]
    home.bench("schedule", home.sheet("interference", HEADER, lines).path, "--repeat", "2")
    found = home.json("interference", "85")
    # On a busy machine a repetition may be left out, if other programs let the other one alone.
    left_out = {label for one in found["left_out"] for label in one["runs"]}
    assert {reason["reason"] for one in found["left_out"] for reason in one["reasons"]} <= {"other_programs"}
    clocks: dict[tuple[int, str], list[Clocks]] = {}
    for run in home.runs(85):
        label = f"85/{run['workload']}/{run['position']}" + ("@1" if run["attempt"] == 1 else "")
        if label not in left_out:
            clocks.setdefault((run["workload"], run["name"]), []).append(Clocks(folder, run))

    [pair] = found["sets"]
    assert (pair["sharing"], pair["repetitions"]) == ("host", len(clocks[3, "short"]))
    together = list(zip(clocks[3, "short"], clocks[3, "long"], strict=True))
    for member in pair["members"]:
        name = member["configuration"]
        beside, alone = [], []
        for here in together:
            one = here[list(SECONDS).index(name)]
            # How far it was when the first of the two ended, and how long that took it alone.
            end = min(other.ends for other in here)
            beside.append(end - one.begins)
            alone.append(
                fmean(solo.seconds_to(one.step_at(end)) for solo in clocks[1 + list(SECONDS).index(name), name])
            )
        assert member["slowdown"]["ratio"] == pytest.approx(fmean(beside) / fmean(alone), rel=0.15)
        if member["slowdown"]["low"] is not None:
            assert member["slowdown"]["low"] < member["slowdown"]["ratio"] < member["slowdown"]["high"]
        assert member["slowdown"]["ratio"] > 1 or pair["verdict"] == "disturbed", "they shared a core"
    makespan = fmean(max(one.ends, other.ends) - min(one.begins, other.begins) for one, other in together)
    assert pair["makespan_seconds"]["together"] == pytest.approx(makespan, rel=0.15, abs=0.5)
    one_by_one = sum(fmean(one.ends - one.begins for one in clocks[key]) for key in ((1, "short"), (2, "long")))
    assert pair["makespan_seconds"]["one_by_one"] == pytest.approx(one_by_one, rel=0.15, abs=0.5)
    rates = pair["throughput"]["steps_per_second"]
    assert rates["together"] == pytest.approx(10 * sum(SECONDS.values()) / makespan, rel=0.2)

    printed = home.bench("interference", "85", "--metric", "step_time", "-o", "steps.svg")
    assert "Wrote steps.svg" in printed
    assert (home.folder / "steps.svg").stat().st_size > 1000
