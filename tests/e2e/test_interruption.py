"""Interrupted schedules: a run outlives its scheduler and terminal, its record outlives its supervisor."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from hypergauge.core.system.polling import readable
from tests.support.data.tags import settled
from tests.support.home import COMMAND, GRACE, GRACEFUL, Home, Sheet, Started, open_gate, processes_of, supervisor_of
from tests.support.waiting import HUNG_SECONDS, wait_for

HEADER = "Experiment,Workload,Name,File,Params"


@dataclass(frozen=True)
class Scene:
    """A file that is being scheduled: its first runs continue until their gates are there."""

    sheet: Sheet
    gates: dict[str, Path]
    schedule: Started

    def await_starts(self, count: int) -> None:
        """Wait until the scheduler has said `count` starts: it moves those that it could not release at once before."""
        wait_for(lambda: self.schedule.output.read_text().count(" started\n") == count, f"{count} starts")


def prepared(
    home: Home, experiment: int, *names: str, options: str = "", before: Sequence[str] = (), after: Sequence[str] = ()
) -> tuple[Sheet, dict[str, Path]]:
    """Return a file with a workload of runs that wait at gates, and their gates."""
    gates = {name: home.folder / f"gate-{experiment}-{name}" for name in names}
    rows = [f"{experiment},1,{name},{{scripts}}/gate.py,{gate} {options}" for name, gate in gates.items()]
    return home.sheet(f"gates-{experiment}", HEADER, [*before, *rows, *after]), gates


@pytest.fixture(scope="module")
def scenes(home: Home) -> dict[int, Scene]:
    """Scenes by experiment. All are started at once: that they wait for each other's gates is what takes the time."""
    done, later = "{},0,done,{{scripts}}/clocked.py,--seconds 0", "{},2,later,{{scripts}}/clocked.py,--seconds 0"
    files = {
        10: prepared(home, 10, "long"),
        11: prepared(home, 11, "good", "bad", before=[done.format(11)]),
        12: prepared(home, 12, "alive", "dead", options="--grandchild"),
        13: prepared(home, 13, "orphan"),
        15: prepared(home, 15, "one", "two", options="--grandchild", after=[later.format(15)]),
        17: prepared(home, 17, "deaf", options="--deaf"),
        18: prepared(home, 18, "ended", "kept", options="--grandchild"),
        19: prepared(home, 19, "only"),
    }
    options = {10: ["--timeout", "1"]}
    return {
        experiment: Scene(
            sheet,
            gates,
            home.start(
                "schedule", sheet.path, *options.get(experiment, []), through=GRACEFUL if experiment == 17 else ()
            ),
        )
        for experiment, (sheet, gates) in files.items()
    }


def test_a_killed_scheduler_attaches_again(home: Home, scenes: dict[int, Scene]) -> None:
    scene = scenes[11]
    with scene.sheet.watched():
        scene.await_starts(3)
        before = home.running(11, 2)
        scene.schedule.kill()
        assert scene.sheet.column("Status") == ["finished", "running", "running"]
        open_gate(scene.gates["bad"], 3)
        wait_for(lambda: home.runs(11)[2]["status"] == "failed", "the end that its supervisor records")
        again = home.start("schedule", scene.sheet.path)
        wait_for(lambda: "attached" in again.output.read_text(), "attaching")
        scene.gates["good"].touch()
        again.wait(status=1)
    finished, *after = home.runs(11)
    assert [(run["run_id"], run["started"]) for run in after] == [(run["run_id"], run["started"]) for run in before]
    assert [(run["status"], run["exit_code"], run["attempt"]) for run in after] == [
        ("finished", 0, 1),
        ("failed", 3, 1),
    ]
    assert scene.sheet.column("Status") == ["finished", "finished", "failed"]
    assert scene.sheet.column("Run") == [run["run_id"] for run in (finished, *after)]
    for run in after:
        assert home.artifact(run["mlflow_run_id"]) == home.output(run["run_id"])


def test_supervisors_killed_too_end_the_runs_which_are_repeated(home: Home, scenes: dict[int, Scene]) -> None:
    scene, before = scenes[12], home.running(12, 2)
    wait_for(lambda: all(measured(home, run["run_id"]) for run in before), "a sample of both")
    scene.schedule.kill()
    alive, dead = (run["run_id"] for run in before)
    for run_id in (alive, dead):
        supervisor_of(run_id).kill()
    for process in processes_of(dead):
        process.kill()
    died_at = time.time()
    assert len(processes_of(alive)) == 2
    for gate in scene.gates.values():
        gate.touch()
    again_at = time.time()
    home.bench("schedule", scene.sheet.path)
    assert not processes_of(alive)
    runs = home.runs(12)
    assert [(run["position"], run["attempt"], run["status"]) for run in runs] == [
        (1, 1, "failed"), (1, 2, "finished"), (2, 1, "failed"), (2, 2, "finished"),
    ]  # fmt: skip
    assert runs[0]["ended"] > again_at
    assert died_at - 3 < runs[2]["ended"] < died_at
    assert [run["exit_code"] for run in runs] == [None, 0, None, 0]
    assert scene.sheet.column("Status") == ["finished", "finished"]
    assert scene.sheet.column("Run") == [runs[1]["run_id"], runs[3]["run_id"]]
    for run, selector in zip(runs[:2], ("12/1/1@1", "12/1/1"), strict=True):
        [found] = home.json("list", selector)
        assert (found["run_id"], found["attempt"]) == (run["run_id"], run["attempt"])
        assert home.mlflow_run(run["mlflow_run_id"])["status"] == run["status"].upper()
        assert home.artifact(run["mlflow_run_id"]) == b"at the gate\n"


def test_a_run_whose_supervisor_alone_is_killed_is_recorded_failed(home: Home, scenes: dict[int, Scene]) -> None:
    scene, [run] = scenes[13], home.running(13)
    supervisor_of(run["run_id"]).kill()
    scene.schedule.wait(status=1)
    assert not processes_of(run["run_id"])
    [run] = home.runs(13)
    assert (run["status"], run["reason"]) == ("failed", "its supervisor vanished, and its processes were ended")
    assert scene.sheet.column("Status") == ["failed"]
    assert home.mlflow_run(run["mlflow_run_id"])["status"] == "FAILED"
    assert home.bench("logs", "13", "-f") == "at the gate\n"


def test_a_closed_terminal_stops_nothing(home: Home) -> None:
    sheet, gates = prepared(home, 14, "first", after=["14,2,second,{scripts}/clocked.py,--seconds 0"])
    terminal, inside = os.openpty()
    with sheet.watched():
        schedule = subprocess.Popen(
            ["setsid", "--ctty", *COMMAND, "schedule", sheet.path],
            stdin=inside, stdout=inside, stderr=inside, env=home.environment, cwd=home.folder,
        )  # fmt: skip
        os.close(inside)
        shown, close = drained(terminal)
        [run] = home.running(14)
        wait_for(lambda: b"14/1/1" in shown, "progress on the terminal")
        close()
        time.sleep(0.5)
        gates["first"].touch()
        assert schedule.wait(HUNG_SECONDS) == 0
    assert sheet.column("Status") == ["finished", "finished"]
    assert [(one["status"], one["exit_code"]) for one in home.runs(14)] == [("finished", 0)] * 2
    assert home.runs(14)[0]["run_id"] == run["run_id"]


def test_an_interrupt_stops_runs_in_order(home: Home, scenes: dict[int, Scene]) -> None:
    scene, runs = scenes[15], home.running(15, 2)
    scene.schedule.interrupt()
    scene.schedule.wait(status=1)
    assert not [process for run in runs for process in processes_of(run["run_id"])]
    runs = home.runs(15)
    assert [(run["status"], run["reason"]) for run in runs] == [("stopped", "stopped on request")] * 2
    assert scene.sheet.column("Status") == ["stopped", "stopped", ""]
    assert home.mlflow_run(runs[0]["mlflow_run_id"])["status"] == "KILLED"


def test_an_interrupt_before_the_release_leaves_nothing(home: Home) -> None:
    sheet, _ = prepared(home, 16, "early")
    schedule = home.start("schedule", sheet.path)
    wait_for(lambda: sheet.column("Status") == ["running"], "the row's status")
    schedule.interrupt()
    schedule.wait(status=1)
    [run] = home.runs(16)
    assert (run["status"], sheet.column("Status")) == ("stopped", ["stopped"])
    assert not processes_of(run["run_id"])


def test_a_second_interrupt_kills_runs(home: Home, scenes: dict[int, Scene]) -> None:
    scene, [run] = scenes[17], home.running(17)
    scene.schedule.interrupt()
    time.sleep(0.5)
    assert processes_of(run["run_id"])
    scene.schedule.interrupt()
    wait_for(lambda: not processes_of(run["run_id"]), "its end", timeout=GRACE / 2)
    scene.schedule.wait(status=1)
    [run] = home.runs(17)
    assert (run["status"], run["exit_code"]) == ("stopped", 137)
    assert scene.sheet.column("Status") == ["stopped"]


def test_stop_of_an_experiment_ends_its_schedule_and_no_other(home: Home) -> None:
    after = ["24,2,next,{scripts}/clocked.py,--seconds 0", "25,1,other,{scripts}/clocked.py,--seconds 0"]
    sheet, _ = prepared(home, 24, "first", after=after)
    schedule = home.start("schedule", sheet.path, "--retries", "3")
    home.running(24)
    assert "experiment 24 " in home.bench("stop", "24")
    printed = schedule.wait(status=1)
    assert "experiment 24: stopped" in printed
    assert sheet.column("Status") == ["stopped", "stopped", "finished"]
    assert [(run["workload"], run["status"]) for run in home.runs(24)] == [(1, "stopped")]
    home.bench("schedule", sheet.path, "--rerun", "failed", "--dry-run")
    home.bench("stop", "24", status=2)


def test_stop_ends_one_run_of_a_workload(home: Home, scenes: dict[int, Scene]) -> None:
    scene, [ended, kept] = scenes[18], home.running(18, 2)
    home.bench("stop", "18/1/1")
    assert not processes_of(ended["run_id"])
    assert len(processes_of(kept["run_id"])) == 2
    scene.gates["kept"].touch()
    scene.schedule.wait(status=1)
    assert [(run["status"], run["exit_code"]) for run in home.runs(18)] == [("stopped", 143), ("finished", 0)]
    assert scene.sheet.column("Status") == ["stopped", "finished"]
    assert " 18 " in home.bench("stop", "18", status=2)


def test_a_file_is_scheduled_by_one_command_at_a_time(home: Home, scenes: dict[int, Scene]) -> None:
    scene = scenes[19]
    scene.await_starts(1)
    before = home.running(19)
    assert "experiment 19 " in home.bench("schedule", scene.sheet.path, status=2)
    assert home.running(19) == before
    scene.gates["only"].touch()


def test_a_timeout_ends_a_run(home: Home, scenes: dict[int, Scene]) -> None:
    scenes[10].schedule.wait(status=1)
    [run] = home.runs(10)
    assert scenes[10].sheet.column("Status") == ["timeout"]
    assert (run["status"], run["exit_code"], run["reason"]) == ("timeout", 143, "ran longer than 1 s")
    assert run["duration"] >= 1


def measured(home: Home, run_id: str) -> bool:
    """Return whether a run has a sample of its processes."""
    return bool(home.query("select from run_samples where run_id = %s and scope = 'process' limit 1", run_id))


def drained(terminal: int) -> tuple[bytearray, Callable[[], None]]:
    """Return the output of a terminal, which grows as it is read, and the function that closes the terminal."""
    shown, closing = bytearray(), threading.Event()

    def read() -> None:
        # This thread closes the descriptor: once it is closed, another file may have its number.
        with open(terminal, "rb", buffering=0) as file, contextlib.suppress(OSError):  # no process has the other end
            while not closing.is_set():
                if readable([file], 0.02):
                    shown.extend(file.read(4096))

    thread = threading.Thread(target=read, daemon=True)
    thread.start()

    def close() -> None:
        closing.set()
        thread.join()

    return shown, close


def test_a_collector_that_dies_during_runs_is_started_again(home: Home) -> None:
    sheet, gates = prepared(home, 20, "measured", after=["20,2,later,{scripts}/clocked.py,--seconds 4"])
    schedule = home.start("schedule", sheet.path)
    home.running(20)
    service = home.path / "stack" / "collector.service"
    pid = json.loads(service.read_text())["pid"]
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: json.loads(service.read_text())["pid"] != pid, "another collector")
    wait_for(lambda: home.json("status")["services"]["collector"]["up"], "its answer")
    open_gate(gates["measured"], 0)
    schedule.wait()
    # The first holder of the stack that sees it starts it, and reports that.
    printed = [path.read_text() for path in home.folder.glob("output-*.txt")]
    assert any("collector ended unexpectedly" in one for one in printed)
    settled(home, 20)
    [covered] = home.query(
        "select coverage from run_quality join runs using (run_id) where name = 'later' and run_id = %s",
        home.runs(20)[1]["run_id"],
    )
    assert covered["coverage"] > 0
