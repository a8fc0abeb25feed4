"""Shutdown of the local stack while runs are running."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest
from hypergauge.core.files.run_folder import RunFolder, SupervisorState
from hypergauge.core.system.processes import identity
from hypergauge.stack.services.shutdown import shut_down


def test_running_runs_are_named_by_their_labels(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)

    def run(run_id: str, label: str) -> None:
        folder = RunFolder(settings.runs_dir / run_id)
        folder.create({"label": label})
        folder.write_state(SupervisorState(os.getpid(), identity(os.getpid()) or 0.0))

    run("a" * 32, "20/1/1")
    with pytest.raises(
        BadRequest, match=r"^1 run is running \(20/1/1\); `bench stop` ends it, --force leaves it running$"
    ):
        shut_down(settings, force=False)
    run("b" * 32, "20/1/2")
    with pytest.raises(BadRequest, match=r"^2 runs are running \(20/1/1, 20/1/2\); `bench stop` ends them, "):
        shut_down(settings, force=False)
