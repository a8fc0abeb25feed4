"""Failures while runs start or end."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import psutil
import pytest

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import ServiceFailed
from hypergauge.core.files.run_folder import RunFolder, SupervisorState
from hypergauge.gpu import Inventory
from hypergauge.scheduler.active import ActiveRun
from hypergauge.scheduler.events import Event
from hypergauge.scheduler.executors.local import LocalExecutor
from hypergauge.scheduler.experiment.experiment_file import ExperimentFile
from hypergauge.scheduler.job import job_from_command
from hypergauge.scheduler.requests.single_run import run_command
from hypergauge.scheduler.schedule import run_file
from hypergauge.scheduler.supervision import ask_to_stop
from hypergauge.sql.runs import runs
from hypergauge.sql.schema.flavour import Flavour
from hypergauge.sql.server.database import Connection, Database
from tests.support.home import processes_of
from tests.support.waiting import HUNG_SECONDS, wait_for

pytestmark = pytest.mark.parametrize("flavour", [Flavour.POSTGRESQL], indirect=True, ids=["postgresql"])


@pytest.fixture
def file(tmp_path: Path) -> ExperimentFile:
    """A workload of two runs that finish at once."""
    (tmp_path / "train.py").touch()
    path = tmp_path / "e.csv"
    path.write_text("Experiment,Workload,Name,Status,Run,File\n20,1,one,,,train.py\n20,1,two,,,train.py\n")
    return ExperimentFile.read(path)


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def executor(database: Database, settings: Settings, events: list[Event]) -> LocalExecutor:
    return LocalExecutor(database, settings, None, Inventory(), events.append)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C interrupt the block; a shell's background has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def statuses(file: ExperimentFile) -> list[str]:
    return [row.status for row in ExperimentFile.read(file.path).rows]


def started_runs(settings: Settings) -> list[SupervisorState]:
    """Return the supervisors whose command has started."""
    states = [RunFolder(folder).state() for folder in settings.runs_dir.glob("*")]
    return [state for state in states if state is not None and state.root_pid is not None]


def recorded(database: Database) -> list[tuple[str, str | None]]:
    """Return status and reason of each run, by position and attempt."""
    with database.session() as connection:
        return connection.execute("select status, reason from runs order by position, attempt").fetchall()


def test_a_supervisor_that_dies_as_it_is_released_ends_its_run_alone(
    executor: LocalExecutor, file: ExperimentFile, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_runs = runs.start_runs

    def kill_one(
        connection: Connection, workload_id: int, placements: Sequence[runs.Placement], *, lease: float
    ) -> float:
        started_at = start_runs(connection, workload_id, placements, lease=lease)
        state = RunFolder(settings.runs_dir / placements[0].run_id).state()
        assert state is not None
        supervisor = psutil.Process(state.pid)
        supervisor.kill()
        psutil.wait_procs([supervisor], timeout=10)
        return started_at

    monkeypatch.setattr(runs, "start_runs", kill_one)
    assert [outcome.status for outcome in run_file(executor, file)] == ["stopped", "finished"]
    assert recorded(executor.database) == [("stopped", "it was stopped before it began"), ("finished", None)]
    assert statuses(file) == ["stopped", "finished"]


def test_runs_count_from_their_release_and_not_from_before_a_slow_database(
    executor: LocalExecutor, file: ExperimentFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_runs = runs.start_runs
    answered: list[float] = []

    def slowly(
        connection: Connection, workload_id: int, placements: Sequence[runs.Placement], *, lease: float
    ) -> float:
        started_at = start_runs(connection, workload_id, placements, lease=lease)
        time.sleep(0.5)  # as where it is stopped while it commits
        answered.append(time.time())
        return started_at

    monkeypatch.setattr(runs, "start_runs", slowly)
    assert [outcome.status for outcome in run_file(executor, file)] == ["finished"] * 2
    with executor.database.session() as connection:
        starts = connection.execute(
            """
            select extract(epoch from min(started_at))::float8 from (
                select 1 as n, started_at from runs union all select 2, started_at from placements
                union all select 3, started_at from workloads union all select 4, started_at from run_sets) x
            group by n
            """
        ).fetchall()
    assert len(starts) == 4
    assert all(started_at >= answered[0] for (started_at,) in starts)


def test_runs_whose_supervisors_do_not_start_are_over_and_still_to_do(
    executor: LocalExecutor, file: ExperimentFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(sys, "executable", "/bin/false")
        with pytest.raises(ServiceFailed, match="the supervisor of 20/1/1 did not start: it ended with status 1"):
            run_file(executor, file)
    assert recorded(executor.database) == [("stopped", "it was stopped before it began")] * 2
    assert statuses(file) == ["", ""]
    again = run_file(executor, ExperimentFile.read(file.path))
    assert [(outcome.job.attempt, outcome.status) for outcome in again] == [(2, "finished")] * 2


def test_an_interrupt_while_an_end_is_written_down_leaves_no_row_running(
    executor: LocalExecutor, file: ExperimentFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    update = ExperimentFile.update

    def interrupted(file: ExperimentFile, changes: Mapping[int, tuple[str, str]]) -> frozenset[int]:
        if any(status == "finished" for status, _ in changes.values()):
            signal.raise_signal(signal.SIGINT)
        return update(file, changes)

    monkeypatch.setattr(ExperimentFile, "update", interrupted)
    with interruptible(), pytest.raises(KeyboardInterrupt):
        run_file(executor, file)
    assert set(statuses(file)) <= {"finished", "stopped"}
    assert {status for status, _ in recorded(executor.database)} <= {"finished", "stopped"}


@pytest.mark.parametrize("at", [1, 2])
def test_an_interrupt_before_all_supervisors_have_started_leaves_nothing(
    executor: LocalExecutor, file: ExperimentFile, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    start_supervisor = ActiveRun.start_supervisor
    started: list[ActiveRun] = []

    def interrupted(active: ActiveRun, through: Sequence[str], stdin: int | None = None) -> None:
        started.append(active)
        if len(started) == at:
            raise KeyboardInterrupt
        start_supervisor(active, through, stdin)

    monkeypatch.setattr(ActiveRun, "start_supervisor", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_file(executor, file)
    assert {status for status, _ in recorded(executor.database)} == {"stopped"}
    assert set(statuses(file)) <= {"stopped", ""}
    assert not any(processes_of(active.folder.run_id) for active in started)


def test_a_second_interrupt_between_two_requests_to_stop_leaves_no_run_failed(
    executor: LocalExecutor,
    file: ExperimentFile,
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "train.py").write_text("import time; time.sleep(600)")
    ask_to_stop = ActiveRun.ask_to_stop
    calls: list[ActiveRun] = []

    def interrupted(active: ActiveRun, reason: str | None = None) -> None:
        ask_to_stop(active, reason)
        if not calls:
            signal.raise_signal(signal.SIGINT)
        calls.append(active)

    def interrupt() -> None:
        wait_for(lambda: len(started_runs(settings)) == 2, "both runs")
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(ActiveRun, "ask_to_stop", interrupted)
    thread = threading.Thread(target=interrupt)
    thread.start()
    with interruptible(), pytest.raises(KeyboardInterrupt):
        run_file(executor, file)
    thread.join()
    assert statuses(file) == ["stopped"] * 2
    assert recorded(executor.database) == [("stopped", "stopped on request")] * 2


def test_a_run_killed_after_the_request_to_stop_it_is_stopped(executor: LocalExecutor, settings: Settings) -> None:
    def stop_and_kill() -> None:
        [state] = wait_for(lambda: started_runs(settings), "the run")
        [folder] = settings.runs_dir.glob("*")
        supervisor = psutil.Process(state.pid)
        supervisor.suspend()  # as on a busy machine: the request and the end of the command reach it at once
        assert ask_to_stop(RunFolder(folder))
        command = psutil.Process(state.root_pid)
        command.kill()
        wait_for(lambda: command.status() == psutil.STATUS_ZOMBIE, "its end")
        supervisor.resume()

    thread = threading.Thread(target=stop_and_kill)
    thread.start()
    _, [outcome] = run_command(executor, job_from_command(["sleep", "600"], name=None, devices=None))
    thread.join()
    assert outcome.status == "stopped"
    assert recorded(executor.database) == [("stopped", "stopped on request")]


def test_an_end_that_cannot_be_written_is_written_when_it_can(
    executor: LocalExecutor, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As on a full disk, which the run itself may have filled.
    obstacle = "os.path.dirname(os.environ['BENCH_SPANS']) + f'/.end.json.{os.getppid()}'"
    script = f"import os; os.mkdir({obstacle}); os.mkdir({obstacle} + '/x'); raise SystemExit(3)"
    removed: list[Path] = []

    def remove() -> None:
        deadline = time.monotonic() + HUNG_SECONDS
        while not removed and time.monotonic() < deadline:
            for folder in settings.runs_dir.glob("*/.end.json.*"):
                if folder.is_dir() and not processes_of(folder.parent.name):
                    time.sleep(0.3)
                    (folder / "x").rmdir()
                    folder.rmdir()
                    removed.append(folder)
            time.sleep(0.02)

    monkeypatch.chdir(tmp_path)
    thread = threading.Thread(target=remove)
    thread.start()
    _, [outcome] = run_command(executor, job_from_command([sys.executable, "-c", script], name=None, devices=None))
    thread.join()
    assert (outcome.status, len(removed)) == ("failed", 1)
    assert recorded(executor.database) == [("failed", "exit status 3")]


def test_the_peak_of_a_run_is_not_its_supervisors(executor: LocalExecutor, settings: Settings) -> None:
    outcomes = [
        run_command(executor, job_from_command(words, name=None, devices=None))[1][0]
        for words in (["true"], [sys.executable, "-c", "bytearray(200 << 20)"])
    ]
    small, large = (RunFolder(settings.runs_dir / outcome.run_id).end() for outcome in outcomes if outcome.run_id)
    assert small is not None
    assert small.max_rss_bytes == 0, "unknown, since the kernel passes the supervisor's peak on"
    assert large is not None
    assert 200 << 20 < large.max_rss_bytes < 300 << 20
