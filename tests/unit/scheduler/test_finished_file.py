"""A finished experiment file: no service starts for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypergauge.core.config.settings import Settings
from hypergauge.core.files.run_folder import RunFolder
from hypergauge.scheduler.plan.finished import is_finished
from hypergauge.scheduler.supervision import unseen_end
from hypergauge.sql.server import session
from tests.conftest import Command

RUN = "0123456789abcdef0123456789abcdef"
DONE = f"""Experiment,Workload,File,Status,Run
1,1,train.py,finished,{RUN}
1,2,train.py,failed,
1,2,train.py,stopped,
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a home that does not exist yet; its database has no server."""
    (tmp_path / "train.py").touch()
    (tmp_path / "done.csv").write_text(DONE)
    monkeypatch.setenv("BENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("BENCH_DSN", "postgresql://nobody@127.0.0.1:1/none")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setattr(session, "LONGEST_OUTAGE", 0.0)
    return tmp_path / "home"


def test_a_finished_file_starts_nothing(command: Command, home: Path, tmp_path: Path) -> None:
    status, output, _ = command("schedule", "done.csv")
    assert (status, output.split(";")[0]) == (0, "Nothing is left to do in this file")
    assert (tmp_path / "done.csv").read_text() == DONE
    assert not home.exists()


@pytest.mark.parametrize("option", [["--rerun", "failed"], ["--rerun", "all"], ["--dry-run"]], ids=" ".join)
def test_options_beyond_the_file_query_the_database(command: Command, home: Path, option: list[str]) -> None:
    assert command("schedule", "done.csv", *option)[0] == 1


@pytest.mark.parametrize("status", ["", "running"])
def test_a_pending_or_running_row_queries_the_database(
    command: Command, home: Path, tmp_path: Path, status: str
) -> None:
    (tmp_path / "done.csv").write_text(DONE + f"1,3,train.py,{status},\n")
    assert command("schedule", "done.csv")[0] == 1


def test_what_a_run_has_left_undelivered_is_delivered(command: Command, home: Path) -> None:
    folder = RunFolder(home / "runs" / RUN)
    folder.create({})
    folder.write_end(unseen_end("finished", 1.0, 2.0, ""))
    assert command("schedule", "done.csv")[0] == 1, "the database is queried"
    folder.mark_delivered()
    assert command("schedule", "done.csv")[0] == 0


@pytest.mark.parametrize(("rerun", "finished"), [(None, True), ("failed", False), ("all", False)])
def test_a_file_is_finished_unless_runs_are_repeated(
    home: Path, tmp_path: Path, rerun: str | None, finished: bool
) -> None:
    assert is_finished(Settings(home=home), tmp_path / "done.csv", rerun) is finished


def test_a_file_with_errors_is_not_finished(home: Path, tmp_path: Path) -> None:
    (tmp_path / "done.csv").write_text(DONE.replace("1,1,", "1,x,"))
    assert not is_finished(Settings(home=home), tmp_path / "done.csv")
