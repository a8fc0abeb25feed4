"""Configured stores without a server: our own MLflow server keeps the runs in them."""

from __future__ import annotations

import sqlite3
import subprocess
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.home import COMMAND, Home
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("store", ["sqlite:///mlflow.db", "mlruns"])
def test_runs_are_kept_in_a_store_beside_the_experiment(home: Home, tmp_path: Path, store: str) -> None:
    other = replace(home, path=tmp_path / "home")
    environment = {**other.environment, "BENCH_DSN": home.dsn, "MLFLOW_TRACKING_URI": store}
    words = [*COMMAND, "run", "--name", "stored", "--", "echo", "kept"]
    done = subprocess.run(words, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    # Its supervisor delivers, and stops what the command has started, when no process waits for it any more.
    wait_for(lambda: not [*(other.path / "stack").glob("*.service")], "the end of the stack")
    if store == "mlruns":
        [status] = tmp_path.glob("mlruns/*/*/tags/hypergauge.status")
        assert status.read_text() == "finished"
    else:
        with closing(sqlite3.connect(tmp_path / "mlflow.db")) as kept:
            assert [status for (status,) in kept.execute("select status from runs")] == ["FINISHED"]
    [output] = tmp_path.glob("home/artifacts/**/output.log")
    assert output.read_text() == "kept\n"
