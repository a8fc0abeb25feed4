"""Throughput of a script that counts its samples, from the client's file to the comparison."""

from __future__ import annotations

import pytest

from tests.support.home import Home

pytestmark = pytest.mark.slow


def test_a_script_that_counts_its_samples_has_a_throughput(home: Home) -> None:
    sheet = home.sheet(
        "counted", "Experiment,Workload,Name,File,Params", ["134,1,counted,{scripts}/counted.py,--batch 32"]
    )
    home.bench("schedule", sheet.path)
    assert sheet.column("Status") == ["finished"]
    found = home.json("compare", "134")
    [run] = found["runs"]
    [stored] = home.query("select * from run_throughput where run_id = %s", run["run_id"])
    assert (stored["steps"], stored["samples"], stored["tokens"]) == (20, 640, 5120)
    # Each step slept for at least 30 ms with its wait; the evaluation in between is no time of steps.
    assert 0.6 <= stored["seconds"] <= run["duration_seconds"] - 1
    assert run["samples_per_second"] == pytest.approx(640 / stored["seconds"])
    assert run["tokens_per_second"] == pytest.approx(8 * run["samples_per_second"])
    assert run["flops_per_second"] == pytest.approx(20e6 / stored["seconds"])
    assert run["steps_per_second"] == pytest.approx(20 / stored["seconds"])
    assert 0.2 / stored["seconds"] <= run["data_wait_share"] < 1
    assert {"metric": "mfu", "run": "134/1/1", "reason": "no_peak_flops", "model": None} in run["missing"]
    [not_finite] = [one for one in found["notices"] if one["code"] == "not_finite"]
    assert (not_finite["runs"], not_finite["values"]) == (["134/1/1"], {"metrics": ["loss"], "steps": [1]})

    table = home.bench("compare", "134", "-m", "samples/s", "-m", "data wait")
    assert "samples/s" in table
    given = home.start("compare", "134", "-m", "MFU", through=["env", "BENCH_PEAK_FLOPS=1e9"])
    assert "no mfu" not in given.wait(0)
