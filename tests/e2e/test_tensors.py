"""Reductions of tensors of a real run: while it lives, after the death of its script, and in a capsule."""

from __future__ import annotations

import csv

from tests.support.home import Home, processes_of
from tests.support.waiting import wait_for

# It watches a model of two tensors, and is killed in the middle of a step.
TRAIN = """
import os, struct, time
from hypergauge import track
from hypergauge.client.tensors import TensorFile

path = os.environ["BENCH_TENSORS"]
file = TensorFile(path)
with track.phase("train"):
    for step in range(1000):
        with track.step(step):
            values = struct.pack("<2f", 3.0 * step, 4.0 * step)
            file.write(step, "gradients", ["fc1.weight", "fc2.weight"], [100, 10], {"l2": values})
            track.work.add(data_wait=0.25, samples=32)
        if step == 20:
            folder = os.path.join(os.path.dirname(path), "tensors")
            os.mkdir(folder)
            with open(os.path.join(folder, "20-fc1.weight.npy"), "wb") as whole:
                whole.write(b"numbers")
            file.problem("out of memory.")
        if step == 40:
            with open(path, "a") as torn:
                torn.write('{"set": "')
            print("at step 40", flush=True)
            time.sleep(3600)
"""


def test_tensors_of_a_killed_training(home: Home) -> None:
    script = home.folder / "watched.py"
    script.write_text(TRAIN)
    sheet = home.sheet("watched", "Experiment,Workload,Name,File,Listeners", [f"96,1,watched,{script},none"])
    scheduling = home.start("schedule", sheet.path)
    [run] = wait_for(lambda: [one for one in home.runs(96) if b"at step 40" in home.output(one["run_id"])], "step 40")
    newest = "select max(step) as step from tensor_stats where run_id = %s"
    wait_for(lambda: home.query(newest, run["run_id"])[0]["step"] == 40, "the live copy")
    for process in processes_of(run["run_id"]):
        process.kill()
    scheduling.wait(1)
    home.delivered(run["run_id"])
    [run] = home.runs(96)
    assert (run["status"], run["exit_code"]) == ("failed", 137)
    rows = home.query(
        "select step, name, size, l2 from tensor_stats where run_id = %s and collection = 'gradients' order by step, name",
        run["run_id"],
    )
    assert [tuple(row.values()) for row in rows] == [
        (step, name, size, factor * step)
        for step in range(41)
        for name, size, factor in (("fc1.weight", 100, 3), ("fc2.weight", 10, 4))
    ]
    norms = home.query("select norm from tensor_steps where run_id = %s order by step", run["run_id"])
    assert [row["norm"] for row in norms] == [5.0 * step for step in range(41)]
    steps = home.query("select data_wait, samples from spans where run_id = %s and kind = 'step'", run["run_id"])
    assert [tuple(row.values()) for row in steps] == [(0.25, 32.0)] * 41
    assert home.artifact(run["mlflow_run_id"], "tensors/20-fc1.weight.npy") == b"numbers"
    notices = {one["code"]: one["values"] for one in home.json("compare", "96")["notices"]}
    assert notices["watch_failed"] == {"problems": ["out of memory"]}
    home.bench("export", "96", "-o", home.folder / "watched.capsule")
    home.bench("rm", "96", "--yes")
    assert home.query("select from tensor_steps where run_id = %s", run["run_id"]) == []
    home.bench("import", home.folder / "watched.capsule")
    assert (
        home.query("select step, name, size, l2 from tensor_stats where run_id = %s order by step, name", run["run_id"])
        == rows
    )


RECORD = """
import os, struct
from hypergauge import track
from hypergauge.client.tensors import TensorFile

file = TensorFile(os.environ["BENCH_TENSORS"])
with track.phase("train"):
    for step in range(5):
        file.write(step, "weights", ["a", "b"], [4, 2], {"l2": struct.pack("<2f", step, float("nan"))})
"""


def test_tensors_leave_the_database_as_a_file(home: Home) -> None:
    script = home.folder / "recorded.py"
    script.write_text(RECORD)
    other = home.folder / "other.py"
    other.write_text("print('no tensors')\n")
    lines = [f"100,1,recorded,{script},none", f"100,2,other,{other},none"]
    home.bench("schedule", home.sheet("recorded", "Experiment,Workload,Name,File,Listeners", lines).path)
    file = home.folder / "tensors.csv"
    shown = home.bench("export", "100", "--tensors", "--phase", "train", "-o", file)
    assert "Wrote 10 rows of tensors of 1 run to" in shown
    found = list(csv.DictReader(file.read_text().splitlines()))
    assert [(row["run"], int(row["step"]), row["name"], row["size"], row["l2"]) for row in found] == [
        ("100/1/1", step, name, size, value)
        for step in range(5)
        for name, size, value in (("a", "4", str(step)), ("b", "2", ""))
    ]
    written = home.json("export", "100", "--tensors", "-o", str(home.folder / "tensors.parquet"))
    assert (written["runs"], written["rows"]) == (2, 10)
    home.bench("export", "100/2", "-o", home.folder / "none.csv", status=1)
    refused = home.bench("export", "100/2", "--tensors", "-o", home.folder / "none.csv", status=1)
    assert "no tensors; scripts record them with `track.watch(model)`" in " ".join(refused.split())
    assert not (home.folder / "none.csv").exists()
