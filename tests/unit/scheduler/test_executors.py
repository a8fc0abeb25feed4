"""Common parts of executors: discovery, device assignment, sources of ends, concurrency."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from hypergauge.core.config.settings import EXECUTORS, Settings
from hypergauge.core.errors import BadRequest
from hypergauge.gpu import inventory
from hypergauge.scheduler.events import Outcome
from hypergauge.scheduler.executors.base import ExecutorAway, JobState, RunExit, Stopping
from hypergauge.scheduler.executors.batch.concurrency import run_concurrently
from hypergauge.scheduler.executors.batch.device_assignment import assign_devices
from hypergauge.scheduler.executors.batch.order import OrderedRun, WorkloadOrder
from hypergauge.scheduler.executors.batch.retry import GivenUp, Retry
from hypergauge.scheduler.executors.batch.run_exits import asked_by, exit_of
from hypergauge.scheduler.executors.registry import load_batch_system
from hypergauge.scheduler.experiment.experiment_file import ExperimentFile, Row
from hypergauge.scheduler.plan.iterations import Iteration, iterations
from hypergauge.scheduler.plan.plan import PlannedWorkload
from hypergauge.scheduler.plan.policy import Policy
from hypergauge.sql.runs.jobs import JobRun
from tests.support.waiting import HUNG_SECONDS

TIME_LIMIT = RunExit("timeout", "Slurm: the time limit was reached")
RUNNING = JobRun("r", None, 1, 1, "train", "running", 1.0, None, None, None, None)


def parsed(tmp_path: Path, *devices: tuple[str, str]) -> dict[str, Row]:
    path = tmp_path / "e.csv"
    lines = [f"20,1,{number},{words},{how},t.py" for number, (words, how) in enumerate(devices)]
    path.write_text("\n".join(["Experiment,Workload,Name,Devices,Collocation,File", *lines]) + "\n")
    return {row.name: row for row in ExperimentFile.read(path).rows}


def test_local_needs_no_batch_system_and_a_wrong_name_has_a_near_one() -> None:
    assert load_batch_system("local") is None
    with pytest.raises(BadRequest, match=r"there is no executor 'slum' \(did you mean 'slurm'\?\)"):
        load_batch_system("slum")


def test_an_executor_of_others_has_a_section_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bench.toml").write_text('[mine]\nqueue = "long"\n')
    found = [EntryPoint("mine", "tests.unit.mine:Mine", EXECUTORS), EntryPoint("bare", "builtins:dict", EXECUTORS)]
    with pytest.raises(BadRequest, match=r"the executor 'mine' \(tests.unit.mine:Mine\) cannot be loaded"):
        load_batch_system("mine", directory=tmp_path, found=found)
    monkeypatch.setattr(
        "importlib.metadata.entry_points", lambda **named: [one for one in found if one.name == named["name"]]
    )
    assert Settings.load({}, tmp_path).executor == "local"
    (tmp_path / "bench.toml").write_text('[mien]\nqueue = "long"\n')
    with pytest.raises(BadRequest, match="unknown setting 'mien'"):
        Settings.load({}, tmp_path)


def test_words_of_rows_mean_the_jobs_gpus_in_their_order(tmp_path: Path) -> None:
    gpus = inventory("4xH100").gpus
    rows = parsed(tmp_path, ("7", "-"), ("2+7", "MPS"), ("", "-"))
    assigned = assign_devices(rows, [gpus[3], gpus[1]], [])
    found = {name: [assigned[name].find(word).uuid for word in row.devices] for name, row in rows.items()}
    assert found == {"0": [gpus[1].uuid], "1": [gpus[3].uuid, gpus[1].uuid], "2": []}
    with pytest.raises(BadRequest, match="the rows name 2 GPUs, but the job has 1 GPU"):
        assign_devices(rows, [gpus[0]], [])


def test_rows_that_want_an_instance_are_assigned_one_wherever_it_is(tmp_path: Path) -> None:
    gpus = inventory("2xA100:1x3g.20gb+1x1g.5gb").gpus
    uuids = [one.uuid for gpu in gpus for one in gpu.mig]
    rows = parsed(tmp_path, ("0", "3g.20gb"), ("0", "3g.20gb"), ("5", "1g.5gb"))
    assigned = assign_devices(rows, gpus, uuids)
    assert [assigned[name].find(rows[name].devices[0]).uuid for name in rows] == [
        gpus[0].uuid, gpus[1].uuid, gpus[0].uuid,
    ]  # fmt: skip
    with pytest.raises(BadRequest, match=r"no MIG instance 3g\.20gb for the row 1"):
        assign_devices(rows, gpus, uuids[:2])


@pytest.mark.parametrize(
    ("found", "state", "expected"),
    [
        ({}, JobState("ended", run_exit=TIME_LIMIT), TIME_LIMIT),
        ({"status": "stopped", "reason": "stopped on request"}, JobState("ended", run_exit=TIME_LIMIT), TIME_LIMIT),
        ({"status": "failed", "exit_code": 143}, JobState("ended", run_exit=TIME_LIMIT), TIME_LIMIT),
        ({"status": "failed", "reason": "its supervisor vanished, and so on"}, JobState("ended", run_exit=TIME_LIMIT), TIME_LIMIT),
        # A supervisor's observation and a user's request take precedence.
        ({"status": "finished", "exit_code": 0}, JobState("ended", run_exit=TIME_LIMIT), None),
        ({"status": "failed", "exit_code": 1}, JobState("ended", run_exit=TIME_LIMIT), None),
        ({"status": "timeout", "exit_code": 143}, JobState("ended", run_exit=TIME_LIMIT), None),
        ({"status": "stopped", "reason": asked_by("ann"), "exit_code": 143}, JobState("ended", run_exit=TIME_LIMIT), None),
        # Facts about the run take precedence over those about its job.
        ({"status": "failed", "exit_code": 137}, JobState("ended", run_exit=TIME_LIMIT, run_exits={"r": None}), None),
        ({}, JobState("ended", run_exits={"r": TIME_LIMIT}), TIME_LIMIT),
        ({}, JobState("ended"), RunExit("failed", "its job ended, and the run with it")),
        ({"stop_reason": asked_by("ann")}, JobState("ended"), RunExit("stopped", asked_by("ann"))),
        ({"status": "pending"}, JobState("ended", host="n1"),
         RunExit("failed", "its job ended on n1 before the run began; the job's output has more")),
        ({"status": "pending", "stop_reason": "x"}, JobState("ended"), RunExit("stopped", "it was stopped before it began")),
    ],
)  # fmt: skip
def test_precedence_of_run_exits(found: dict[str, Any], state: JobState, expected: RunExit | None) -> None:
    assert exit_of(replace(RUNNING, **found), state, None) == expected


def test_a_job_reports_why_it_could_not_begin() -> None:
    run = replace(RUNNING, status="pending")
    assert exit_of(run, JobState("ended"), "no such script") == RunExit("failed", "no such script")


def test_an_order_arrives_as_it_was_sent(tmp_path: Path) -> None:
    cells = {"File": "t.py", "Experiment": "20", "Workload": "1", "Params": "--word 'it''s' $HOME `x`"}
    order = WorkloadOrder(
        "job", "slurm", 20, 1, "20 e", "/srv", "/srv/e.csv", [OrderedRun("r", 1, 1, cells)], {"timeout": 3.0}, None, 1.0, "/h"
    )  # fmt: skip
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\ncat\n")
    python.chmod(0o755)
    messages = subprocess.run(
        ["bash"], input=order.script(str(python)), capture_output=True, text=True, check=True
    ).stdout
    assert WorkloadOrder.decode(messages) == order
    assert order.load_policy() == Policy(timeout=3.0)
    assert order.row(order.runs[0])[1].cells["Params"].text == cells["Params"]


def planned(count: int) -> list[PlannedWorkload]:
    return [PlannedWorkload(20, number, ()) for number in range(1, count + 1)]


def test_iterations_begin_in_order_and_repetitions_wait() -> None:
    begun: list[tuple[str, int]] = []
    ended: list[tuple[str, int]] = []

    def run(iteration: Iteration) -> list[Outcome]:
        if iteration.repetition == 2:
            assert (iteration.label, 1) in ended
        begun.append((iteration.label, iteration.repetition))
        time.sleep(0.05 if iteration.label == "20/1" else 0.01)
        ended.append((iteration.label, iteration.repetition))
        return []

    run_concurrently(list(iterations(planned(2), 2)), 3, run, Stopping())
    assert begun[:2] == [("20/1", 1), ("20/2", 1)]
    assert sorted(begun) == [("20/1", 1), ("20/1", 2), ("20/2", 1), ("20/2", 2)]


def test_an_error_lets_no_further_iteration_begin_and_is_raised_when_the_others_have_ended() -> None:
    begun: list[str] = []
    second = threading.Event()

    def run(iteration: Iteration) -> list[Outcome]:
        begun.append(iteration.label)
        if iteration.label == "20/1":
            assert second.wait(HUNG_SECONDS)
            raise BadRequest("no")
        second.set()
        time.sleep(0.2)
        begun.append("ended")
        return []

    with pytest.raises(BadRequest, match="no"):
        run_concurrently(list(iterations(planned(4), 1)), 2, run, Stopping())
    assert begun == ["20/1", "20/2", "ended"]


def test_interrupts_stop_running_jobs_gracefully_and_then_at_once() -> None:
    stopping, reactions = Stopping(), []

    def run(iteration: Iteration) -> list[Outcome]:
        assert stopping.asked.wait(HUNG_SECONDS)
        reactions.append("stop requested")
        assert stopping.at_once.wait(HUNG_SECONDS)
        reactions.append("at once")
        return []

    def press() -> None:
        for _ in range(2):
            time.sleep(0.3)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    presser = threading.Thread(target=press)
    presser.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            run_concurrently(list(iterations(planned(2), 1)), 1, run, stopping)
    finally:
        presser.join()
        signal.signal(signal.SIGINT, before)
    assert reactions == ["stop requested", "at once"]


def test_an_executor_that_is_away_is_retried_and_that_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hypergauge.scheduler.executors.batch.retry._FIRST_SECONDS", 0.01)
    messages: list[str] = []
    answers = [ExecutorAway("it is away"), ExecutorAway("it is away"), None]

    def query() -> None:
        answer = answers.pop(0)
        if answer is not None:
            raise answer

    stopping = Stopping()
    assert Retry(messages.append, stopping).insist(query) is None
    assert len(messages) == 2
    assert "it is away" in messages[0]
    stopping.asked.set()
    answers.append(ExecutorAway("it is away"))
    with pytest.raises(GivenUp):
        Retry(messages.append, stopping).insist(query)
