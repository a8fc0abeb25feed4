"""Workloads as jobs of an executor: monitored, attached, stopped, and the source of their ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from psycopg.rows import dict_row

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest
from hypergauge.core.files.run_folder import RunFolder
from hypergauge.scheduler import schedule, supervision
from hypergauge.scheduler.events import Event, Outcome
from hypergauge.scheduler.executors.base import BatchSystem, Executor, RunExit
from hypergauge.scheduler.executors.batch.executor import BatchExecutor
from hypergauge.scheduler.experiment.experiment_file import ExperimentFile
from hypergauge.scheduler.plan.policy import Policy
from hypergauge.sql.runs import jobs
from hypergauge.sql.runs.selection import select_runs
from hypergauge.sql.schema.flavour import Flavour
from hypergauge.sql.server.database import Database
from tests.support.cluster.in_process import Died, InProcess
from tests.support.waiting import HUNG_SECONDS, wait_for

pytestmark = pytest.mark.parametrize("flavour", [Flavour.POSTGRESQL], indirect=True, ids=["postgresql"])

SCRIPT = "import pathlib, sys, time\nwhile not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.02)\nsys.exit(int(sys.argv[2]))\n"
HEADER = "Experiment,Workload,Name,File,Params\n"


@pytest.fixture
def executor(
    database: Database, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[InProcess]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("hypergauge.scheduler.executors.batch.job_monitor._LOOK_SECONDS", 0.05)
    monkeypatch.setattr("hypergauge.scheduler.executors.batch.job_monitor._SOON_SECONDS", 0.1)
    monkeypatch.setattr("hypergauge.scheduler.executors.batch.job_monitor._RARELY_SECONDS", 0.2)
    monkeypatch.setattr("hypergauge.scheduler.executors.batch.retry._LONGEST_SECONDS", 0.05)
    monkeypatch.setattr("hypergauge.scheduler.executors.batch.job_runner._LOOK_SECONDS", 0.05)
    (tmp_path / "train.py").write_text(SCRIPT)
    found = InProcess(database, settings)
    found.held.set()
    yield found
    for job_id, _ in enumerate(found.submitted, 1):
        found.cancel(str(job_id))


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def begin(database: Database, settings: Settings, executor: InProcess, events: list[Event]) -> Callable[..., Any]:
    """Return what begins to schedule a file, and returns what waits for the outcomes."""

    def begin(file: Path, policy: Policy | None = None, max_jobs: int = 1) -> Callable[[], list[Outcome]]:
        system: BatchSystem = executor
        batch: Executor = BatchExecutor(database, settings, None, system, events.append, max_jobs)
        return in_background(partial(schedule.run_file, batch, ExperimentFile.read(file), policy))

    return begin


def in_background(run: Callable[[], list[Outcome]]) -> Callable[[], list[Outcome]]:
    """Begin to run something, and return what waits for its result."""
    pool = ThreadPoolExecutor(1)
    future = pool.submit(run)
    pool.shutdown(wait=False)
    return lambda: future.result(HUNG_SECONDS)


def sheet(folder: Path, *rows: str) -> Path:
    (folder / "open").touch()
    path = folder / "e.csv"
    path.write_text(HEADER + "\n".join(rows) + "\n")
    return path


def statuses(file: Path) -> list[str]:
    return [row.status for row in ExperimentFile.read(file).rows]


def runs(database: Database) -> list[dict[str, Any]]:
    with database.session() as connection, connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(
            "select r.* from runs r join workloads using (workload_id) order by workload, position, attempt"
        ).fetchall()


def ends(database: Database) -> list[tuple[int, str, str | None]]:
    return [(run["attempt"], run["status"], run["reason"]) for run in runs(database)]


def test_a_file_runs_as_it_does_here(
    begin: Callable[..., Any], executor: InProcess, database: Database, tmp_path: Path
) -> None:
    file = sheet(tmp_path, "20,1,good,train.py,open 0", "20,1,bad,train.py,open 3", "20,2,later,train.py,open 0")
    outcomes = begin(file, Policy(retries=1))()
    assert [(one.job.name, one.job.attempt, one.status) for one in outcomes] == [
        ("good", 1, "finished"), ("bad", 2, "failed"), ("later", 1, "finished"),
    ]  # fmt: skip
    assert statuses(file) == ["finished", "failed", "finished"]
    assert [job.label for job in executor.submitted] == ["20/1 e", "20/1 e", "20/2 e"]
    with database.session() as connection:
        found = select_runs(connection, ["20"])
    assert [run.job for run in found] == ["threads 1", "threads 2", "threads 3"]
    assert found[0].accounting == {
        "step": "1.0", "state": "DONE", "elapsed_seconds": 2, "cpu_seconds": 1, "max_rss_bytes": 1024,
    }  # fmt: skip


def test_a_queued_run_is_pending_with_the_reason_and_may_be_stopped(
    begin: Callable[..., Any], executor: InProcess, database: Database, events: list[Event], tmp_path: Path
) -> None:
    executor.held.clear()
    file = sheet(tmp_path, "20,1,one,train.py,never 0", "20,1,two,train.py,never 0")
    outcomes = begin(file)
    wait_for(lambda: [event for event in events if "waits: Resources" in event.message], "the reason")
    with database.session() as connection:
        [one, two] = select_runs(connection, ["20"])
        assert (one.status, one.reason) == ("pending", "Resources")
        assert statuses(file) == ["", ""]
        assert {row.run for row in ExperimentFile.read(file).rows} == {one.run_id, two.run_id}
        executor.held.set()
        wait_for(lambda: runs(database)[0]["status"] == "running", "the start")
        jobs.ask_to_stop(connection, [one.run_id], "stopped on request of ann")
        wait_for(lambda: runs(database)[0]["status"] == "stopped", "the end of one")
        assert runs(database)[1]["status"] == "running"
        (tmp_path / "never").touch()
    assert [one.status for one in outcomes()] == ["stopped", "finished"]
    assert ends(database)[0] == (1, "stopped", "stopped on request of ann")


@pytest.mark.parametrize("ended", [False, True], ids=["running", "ended meanwhile"])
def test_the_same_command_attaches_and_hands_nothing_in_twice(
    begin: Callable[..., Any], executor: InProcess, database: Database, events: list[Event], tmp_path: Path, ended: bool
) -> None:
    file = sheet(tmp_path, "20,1,one,train.py,later 0", "20,1,two,train.py,later 3")
    executor.held.clear()
    executor.dies = True
    with pytest.raises(Died):
        begin(file)()
    executor.dies = False
    executor.held.set()
    if ended:
        (tmp_path / "later").touch()
        wait_for(lambda: "1" in executor.ended, "the job's end")
    outcomes = begin(file)
    (tmp_path / "later").touch()
    assert [(one.job.attempt, one.status) for one in outcomes()] == [(1, "finished"), (1, "failed")]
    assert statuses(file) == ["finished", "failed"]
    assert len(executor.submitted) == 1


def test_a_job_with_an_unconfirmed_submission_is_found_by_its_name(
    begin: Callable[..., Any], executor: InProcess, events: list[Event], tmp_path: Path
) -> None:
    executor.unheard, executor.away = 1, 2
    outcomes = begin(sheet(tmp_path, "20,1,one,train.py,open 0"))
    assert [one.status for one in outcomes()] == ["finished"]
    assert len(executor.submitted) == 1
    warnings = [event.message for event in events if event.kind == "warning"]
    assert "no answer" in warnings[0]
    assert len(warnings) >= 2  # away, and back again


def test_what_is_refused_is_still_to_do(
    begin: Callable[..., Any], executor: InProcess, database: Database, tmp_path: Path
) -> None:
    file = sheet(tmp_path, "20,1,one,train.py,open 0", "20,2,two,train.py,open 0")
    executor.refuses = "too many jobs"
    with pytest.raises(BadRequest, match="too many jobs"):
        begin(file)()
    assert statuses(file) == ["", ""]
    executor.refuses = None
    assert [one.status for one in begin(file)()] == ["finished", "finished"]
    assert ends(database) == [(1, "stopped", "too many jobs"), (2, "finished", None), (1, "finished", None)]


def test_the_executors_state_counts_for_jobs_that_it_ended(
    begin: Callable[..., Any], executor: InProcess, database: Database, tmp_path: Path
) -> None:
    file = sheet(tmp_path, "20,1,bad,train.py,open 3", "20,1,long,train.py,never 0")
    outcomes = begin(file)
    wait_for(lambda: [run["status"] for run in runs(database)] == ["failed", "running"], "a running one")
    executor.end("1", RunExit("timeout", "threads: its time was over"))
    assert [one.status for one in outcomes()] == ["failed", "timeout"]
    assert ends(database) == [(1, "failed", "exit status 3"), (1, "timeout", "threads: its time was over")]
    assert statuses(file) == ["failed", "timeout"]


def test_a_restarted_job_repeats_its_running_runs(
    begin: Callable[..., Any], executor: InProcess, database: Database, tmp_path: Path
) -> None:
    file = sheet(tmp_path, "20,1,done,train.py,open 0", "20,1,cut,train.py,again 0")
    executor.restarts = True
    outcomes = begin(file)
    wait_for(lambda: [run["status"] for run in runs(database)] == ["finished", "running"], "a running one")
    for folder in RunFolder.all(executor.settings.runs_dir):
        supervision.ask_to_stop(folder)
    wait_for(lambda: len(runs(database)) == 3, "the next attempt")
    (tmp_path / "again").touch()
    assert [(one.job.attempt, one.status) for one in outcomes()] == [(1, "finished"), (2, "finished")]
    assert ends(database) == [
        (1, "finished", None), (1, "stopped", "its job was restarted"), (2, "finished", None),
    ]  # fmt: skip
    assert statuses(file) == ["finished", "finished"]


def test_a_job_that_was_given_up_finds_nothing_to_do(
    begin: Callable[..., Any], executor: InProcess, database: Database, tmp_path: Path
) -> None:
    executor.held.clear()
    file = sheet(tmp_path, "20,1,one,train.py,open 0")
    outcomes = begin(file)
    wait_for(lambda: executor.submitted, "the job")
    with database.session() as connection:
        jobs.withdraw(connection, executor.submitted[0].name, "it never reached threads")
    executor.held.set()
    assert [one.status for one in outcomes()] == ["stopped"]
    assert ends(database) == [(1, "stopped", "it never reached threads")]
    assert not executor.settings.runs_dir.exists()
