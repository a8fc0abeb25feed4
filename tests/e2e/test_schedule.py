"""From an experiment file to a comparison."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.home import Home, Sheet

pytestmark = pytest.mark.quiet

HEADER = "Experiment,Workload,Name,Status,Run,File,Params,Comment"
ROWS = [
    '1,7,left,,,{scripts}/clocked.py,--seconds 1.2 --api-key s3cret,"kept, as it is"',
    "1,7,right,,,{scripts}/clocked.py,megabytes=96,",
    "1,3,training,,,{scripts}/training.py,,",
    "1,3,crashed,,,{scripts}/ends_badly.py,traceback,",
    "1,3,killed,,,{scripts}/ends_badly.py,sigkill,",
]
OUTPUT = b"".join(f"line {number:04} ".ljust(99, ".").encode() + b"\n" for number in range(3000))


@pytest.fixture(scope="module")
def sheet(home: Home) -> Sheet:
    """A file of two workloads that has been run; two of its runs failed."""
    sheet = home.sheet("schedule", HEADER, ROWS)
    with sheet.watched():
        home.bench("schedule", sheet.path, status=1)
    return sheet


@pytest.fixture(scope="module")
def runs(home: Home, sheet: Sheet) -> dict[str, dict[str, Any]]:
    """Its runs, by name."""
    return {run["name"]: run for run in home.runs(1)}


def test_the_file_has_the_status_of_each_row(sheet: Sheet, runs: dict[str, dict[str, Any]]) -> None:
    assert sheet.column("Status") == ["finished", "finished", "finished", "failed", "failed"]
    assert sheet.column("Run") == [runs[name]["run_id"] for name in sheet.column("Name")]
    assert sheet.column("Comment")[0] == "kept, as it is"


def test_rows_of_a_workload_run_together_and_workloads_in_their_order(runs: dict[str, dict[str, Any]]) -> None:
    first = [runs[name] for name in ("left", "right")]
    then = [runs[name] for name in ("training", "crashed", "killed")]
    for workload in (first, then):
        assert len({run["started"] for run in workload}) == 1
    assert first[0]["started"] < min(run["ended"] for run in first)
    assert max(run["ended"] for run in first) <= then[0]["started"]


def test_processes_of_a_workload_begin_together(home: Home, runs: dict[str, dict[str, Any]]) -> None:
    left, right = (float(home.output(runs[name]["run_id"]).split()[0]) for name in ("left", "right"))
    # They are released together; how soon each is under way depends on the machine.
    assert left == pytest.approx(right, abs=2)


@pytest.mark.parametrize("name", ["left", "right"])
def test_durations_agree_with_a_clock_inside(home: Home, runs: dict[str, dict[str, Any]], name: str) -> None:
    run = runs[name]
    first, last = map(float, home.output(run["run_id"]).split())
    assert run["started"] <= first
    assert last <= run["ended"]
    assert last - first <= run["duration"] < last - first + 5


@pytest.mark.parametrize(
    ("name", "status", "exit_code", "reason", "mlflow"),
    [
        ("left", "finished", 0, None, "FINISHED"),
        ("crashed", "failed", 1, "exit status 1: ValueError: this is how it ends", "FAILED"),
        ("killed", "failed", 137, f"killed by SIGKILL: {OUTPUT.splitlines()[-1].decode()}", "FAILED"),
    ],
)
def test_ends_are_true(
    home: Home,
    runs: dict[str, dict[str, Any]],
    name: str,
    status: str,
    exit_code: int,
    reason: str | None,
    mlflow: str,
) -> None:
    run = runs[name]
    assert (run["status"], run["exit_code"], run["reason"]) == (status, exit_code, reason)
    tracked = home.mlflow_run(run["mlflow_run_id"])
    assert (tracked["status"], tracked["tags"]["hypergauge.status"]) == (mlflow, status)


@pytest.mark.parametrize(("name", "ending"), [("crashed", b"ValueError: this is how it ends\n"), ("killed", b"")])
def test_the_artifact_is_complete_to_the_last_byte(
    home: Home, runs: dict[str, dict[str, Any]], name: str, ending: bytes
) -> None:
    artifact = home.artifact(runs[name]["mlflow_run_id"])
    assert artifact.startswith(OUTPUT)
    assert artifact.endswith(ending or OUTPUT[-100:])
    assert artifact == home.output(runs[name]["run_id"])


@pytest.mark.parametrize(
    ("name", "params"),
    [("left", {"seconds": "1.2", "api-key": "***"}), ("right", {"megabytes": "96"}), ("killed", {"arg1": "sigkill"})],
)
def test_parameters_are_recorded_in_both_places(
    home: Home, runs: dict[str, dict[str, Any]], name: str, params: dict[str, str]
) -> None:
    assert runs[name]["params"] == params == home.mlflow_run(runs[name]["mlflow_run_id"])["params"]
    assert "s3cret" not in runs[name]["command"]


def test_list_shows_runs(home: Home, runs: dict[str, dict[str, Any]]) -> None:
    listed = {run["name"]: run for run in home.json("list", "1")}
    assert listed.keys() == runs.keys()
    assert {name: run["run"] for name, run in listed.items()} == {
        "left": "1/7/1", "right": "1/7/2", "training": "1/3/1", "crashed": "1/3/2", "killed": "1/3/3",
    }  # fmt: skip
    assert all(listed[name]["duration"] == pytest.approx(run["duration"]) for name, run in runs.items())


def test_compare_shows_the_runs_own_usage(home: Home, runs: dict[str, dict[str, Any]]) -> None:
    compared = {run["name"]: run for run in home.json("compare", "1")["runs"]}
    for name, run in runs.items():
        assert compared[name]["duration_seconds"] == pytest.approx(run["duration"])
        assert compared[name]["scopes"]["cpu_utilization"] == "process"
    # Each has at most one core, whatever the host did: there are two such runs beside our stack.
    assert 0 < compared["left"]["cpu_utilization"] <= 1.05
    assert compared["right"]["peak_memory_bytes"] > compared["left"]["peak_memory_bytes"] > 64 << 20
    assert compared["right"]["peak_memory_bytes"] > 96 << 20
    assert compared["training"]["final_loss"] == pytest.approx(1 / 6)
    assert "final_loss" not in compared["left"]


def test_compare_by_workload(home: Home, runs: dict[str, dict[str, Any]]) -> None:
    compared = {one["workload"]: one for one in home.json("compare", "1", "--by", "workload")["workloads"]}
    both = [runs["left"], runs["right"]]
    makespan = max(run["ended"] for run in both) - both[0]["started"]
    assert compared["1/7"]["makespan_seconds"] == pytest.approx(makespan, abs=0.001)
    mean = sum(run["duration"] for run in both) / 2
    assert compared["1/7"]["duration_seconds"] == pytest.approx(mean)
    assert compared["1/7"]["spread"]["cpu_utilization"]["max"] <= 1.05
    assert (compared["1/7"]["status"], compared["1/3"]["status"]) == ("finished", "failed")
    assert compared["1/3"]["final_loss"] == pytest.approx(1 / 6)


def test_software_metrics_have_their_history(home: Home, runs: dict[str, dict[str, Any]]) -> None:
    run = runs["training"]
    metrics = home.query("select * from software_metrics where run_id = %s order by step", run["run_id"])
    assert [(one["key"], one["step"], one["value"]) for one in metrics] == [
        ("loss", step, pytest.approx(1 / (1 + step))) for step in range(6)
    ]
    assert all(0 < one["elapsed"] <= run["duration"] for one in metrics)


def test_spans_know_their_parents(home: Home, runs: dict[str, dict[str, Any]]) -> None:
    spans = home.query(
        """
        select s.name, s.kind, s.step, p.name as parent, s.ended_at >= s.started_at as closed
        from spans s left join spans p on p.run_id = s.run_id and p.span_id = s.parent_id
        where s.run_id = %s
        """,
        runs["training"]["run_id"],
    )
    epochs = [("epoch 0", "epoch", 0, "train"), ("epoch 1", "epoch", 1, "train")]
    steps = [("step", "step", step, epoch) for epoch in ("epoch 0", "epoch 1") for step in range(3)]
    expected = [("train", "phase", None, None), *epochs, *steps]
    assert len(spans) == len(expected)
    assert {(span["name"], span["kind"], span["step"], span["parent"]) for span in spans} == set(expected)
    assert all(span["closed"] for span in spans)


def test_scheduling_again_delivers_what_mlflow_has_missed_and_runs_nothing(
    home: Home, sheet: Sheet, runs: dict[str, dict[str, Any]]
) -> None:
    before = sheet.path.read_bytes()
    folder = home.path / "runs" / runs["training"]["run_id"]
    (folder / "delivered.json").unlink()  # as if MLflow had been away when the run ended
    with (folder / "output.log").open("ab") as output:
        output.write(b"not delivered yet")
    assert "Nothing is left to do" in home.bench("schedule", sheet.path)
    assert home.artifact(runs["training"]["mlflow_run_id"]).endswith(b"not delivered yet")
    assert (sheet.path.read_bytes(), len(home.runs(1))) == (before, len(runs))
