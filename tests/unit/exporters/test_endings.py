"""What exporters know of runs by their folders."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from hypergauge.core.files.run_folder import RunFolder, SupervisorState
from hypergauge.exporters.process.run_exits import RunExits


def test_a_run_whose_folder_was_removed_is_forgotten(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "runs" / ("a" * 32))
    folder.create({})
    folder.write_state(SupervisorState(1, 2.0, root_pid=3, started_at=1.75e9))
    endings = RunExits(tmp_path / "runs")
    endings.look(time.time())
    assert endings.started_at(folder.run_id) == 1.75e9
    shutil.rmtree(folder.path)
    endings.look(time.time())
    assert not endings.knows(folder.run_id)
    assert endings.started_at(folder.run_id) is None
