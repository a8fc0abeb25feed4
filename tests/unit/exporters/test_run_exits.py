"""Exits of runs, from their folders."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from pathlib import Path

from hypergauge.core.files.run_folder import RunFolder, SupervisorState
from hypergauge.exporters.process.run_exits import RunExits
from tests.support.exporters.process import END


def test_a_removed_run_folder_drops_the_run(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "runs" / ("a" * 32))
    folder.create({})
    folder.write_state(SupervisorState(1, 2.0, root_pid=3, started_at=1.75e9))
    exits = RunExits(tmp_path / "runs", own_runs=True)
    exits.update(time.time())
    assert exits.started_at(folder.run_id) == 1.75e9
    shutil.rmtree(folder.path)
    exits.update(time.time())
    assert not exits.exposes(folder.run_id)
    assert exits.started_at(folder.run_id) is None


def test_a_run_that_ended_while_nothing_scraped_is_exposed_at_the_next_scrape(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "runs" / ("a" * 32))
    folder.create({})
    exits = RunExits(tmp_path / "runs", own_runs=True)
    now = time.time()
    exits.update(now)
    end = replace(END, started_at=now - 10, ended_at=now + 1)
    folder.write_end(end)
    exits.update(now + 600)
    assert exits.recent == {folder.run_id: end}
    exits.update(now + 601)
    assert exits.recent == {}
