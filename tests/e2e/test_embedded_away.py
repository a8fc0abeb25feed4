"""Deaths of the embedded server while runs are running: nobody has to act, and no run has it among its processes."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from hypergauge.core.config.settings import Settings
from hypergauge.core.system.processes import ProcessStat, is_alive
from hypergauge.sql.server.embedded import EmbeddedServer
from hypergauge.sql.server.postmaster import answers, postmaster
from tests.conftest import NewFolder
from tests.support.home import Home, processes_of, supervisor_of
from tests.support.waiting import HUNG_SECONDS, wait_for

HEADER = "Experiment,Workload,Name,Status,Run,File,Params"


@pytest.fixture(scope="module")
def home(new_folder: NewFolder) -> Iterator[Home]:
    home = Home(new_folder() / "home", new_folder() / "work")
    with home.stack():
        yield home


@pytest.fixture
def server(home: Home) -> EmbeddedServer:
    return EmbeddedServer(Settings(home=home.path).database_dir)


def kill(server: EmbeddedServer) -> ProcessStat:
    """Kill the server as the kernel does when memory is short; return the one that somebody starts in its place."""
    before = postmaster(server.data)
    assert before is not None
    os.kill(before.pid, signal.SIGKILL)

    def another() -> ProcessStat | None:
        process = postmaster(server.data)
        return process if process and process.pid != before.pid else None

    after = wait_for(another, "another server")
    assert answers(server.dsn, server.data, HUNG_SECONDS)
    return after


def test_a_schedule_goes_on_after_its_server_was_killed(home: Home, server: EmbeddedServer) -> None:
    gates = [home.folder / f"gate-{number}" for number in (1, 2)]
    rows = [f"1,{number},run,,,{{scripts}}/gate.py,{gate}" for number, gate in enumerate(gates, 1)]
    sheet = home.sheet("killed", HEADER, rows)
    schedule = home.start("schedule", sheet.path)
    home.running(1)
    kill(server)
    home.running(1)
    gates[0].touch()
    wait_for(lambda: [run["status"] for run in home.runs(1)][:1] == ["finished"], "the end of the first run")
    home.running(1)
    kill(server)
    gates[1].touch()
    schedule.wait()
    assert [(run["status"], run["exit_code"]) for run in home.runs(1)] == [("finished", 0)] * 2
    assert sheet.column("Status") == ["finished"] * 2
    shown = home.bench("status")
    assert "the database was started again 2 times, last at" in shown
    assert shown.count("its process had ended") == 1
    [first, second] = home.json("status")["database"]["restarts"]
    assert first["at"] < second["at"]


def test_a_run_outlives_its_scheduler_and_the_server_outlives_the_run(home: Home, server: EmbeddedServer) -> None:
    gate = home.folder / "gate-3"
    sheet = home.sheet("alone", HEADER, [f"2,1,run,,,{{scripts}}/gate.py,{gate}"])
    schedule = home.start("schedule", sheet.path)
    [run] = home.running(2)
    supervisor = supervisor_of(run["run_id"])
    schedule.process.kill()
    schedule.process.wait()
    process = kill(server)
    assert process.parent != supervisor.pid
    assert process.pid not in [one.pid for one in processes_of(run["run_id"])]
    gate.touch()
    wait_for(lambda: not supervisor.is_running(), "the end of the supervisor")
    assert is_alive(process.pid, process.created), "the end of a run leaves the server alone"
    assert [(run["status"], run["exit_code"]) for run in home.runs(2)] == [("finished", 0)]
