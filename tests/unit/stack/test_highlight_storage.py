"""Storage of highlights in the background: retries, failures of some runs, and the end."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from hypergauge.stack.services import highlight_storage as module
from hypergauge.stack.services.highlight_storage import HighlightStorage
from tests.support.waiting import wait_for

# Notes its arguments; prints those that it has stored before it fails as the file `failing` says.
SCRIPT = """
import pathlib, sys, time
folder = pathlib.Path(sys.argv[1])
with (folder / "calls").open("a") as calls:
    calls.write(" ".join(sys.argv[2:]) + "\\n")
for run in sys.argv[2:]:
    if (folder / run).exists():
        sys.exit(f"{run}: {(folder / run).read_text()}")
    if (folder / f"{run}-hangs").exists():
        time.sleep(3600)
    print(run, flush=True)
"""


class Outcome:
    def __init__(self, folder: Path) -> None:
        self.folder, self.waiting, self.failures = folder, 0, 0

    def fail(self) -> None:
        self.failures += 1

    def storage(self) -> HighlightStorage:
        command = (sys.executable, "-c", SCRIPT, str(self.folder))
        return HighlightStorage(lambda waiting: setattr(self, "waiting", waiting), self.fail, command)

    def calls(self) -> Sequence[Sequence[str]]:
        file = self.folder / "calls"
        return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


@pytest.fixture
def outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Outcome:
    monkeypatch.setattr(module, "_PAUSE_SECONDS", 0.1)
    return Outcome(tmp_path)


def test_a_failed_run_is_retried_and_shown(outcome: Outcome, capsys: pytest.CaptureFixture[str]) -> None:
    (outcome.folder / "b").write_text("the database is away")
    with outcome.storage() as storage:
        storage.add(["a", "b", "c"])
        wait_for(lambda: outcome.failures >= 2, "two failures")
        assert outcome.waiting >= 1
        (outcome.folder / "b").unlink()
        wait_for(lambda: outcome.waiting == 0, "the storage of all runs")
        storage.add(["d"])
        wait_for(lambda: outcome.calls()[-1] == ["d"] and outcome.waiting == 0, "the storage of another run")
    assert outcome.calls()[0] == ["a", "b", "c"]
    assert all("a" not in call for call in outcome.calls()[1:]), "a stored run is not stored again"
    assert "highlights of 2 runs are not stored: b: the database is away; next try in" in capsys.readouterr().err


def test_a_process_that_hangs_is_ended_and_tried_again(outcome: Outcome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_START_SECONDS", 0.5)
    monkeypatch.setattr(module, "_RUN_SECONDS", 0.0)
    (hangs := outcome.folder / "a-hangs").touch()
    with outcome.storage() as storage:
        storage.add(["a"])
        wait_for(lambda: outcome.failures, "the limit")
        hangs.unlink()
        monkeypatch.setattr(module, "_START_SECONDS", 120.0)
        wait_for(lambda: outcome.waiting == 0, "the storage")


def test_its_end_waits_for_the_last_runs_for_a_limited_time(outcome: Outcome, monkeypatch: pytest.MonkeyPatch) -> None:
    with outcome.storage() as storage:
        storage.add(["a"])
    assert outcome.waiting == 0
    monkeypatch.setattr(module, "_LAST_SECONDS", 0.5)
    (outcome.folder / "b-hangs").touch()
    with outcome.storage() as storage:
        storage.add(["b"])
    assert outcome.waiting == 1, "the next start finds it in the database"
