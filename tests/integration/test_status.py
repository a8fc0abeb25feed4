"""`bench status` on a real database: hosts whose clocks are off."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from bench.config import Settings
from sql import targets
from sql.database import Database
from sql.targets import TargetRow, TargetState


def status(settings: Settings, *words: str) -> str:
    others = {name: value for name, value in os.environ.items() if not name.startswith(("BENCH_", "MLFLOW_"))}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "bench.cli", "status", *words],
        env={**others, **settings.environment()}, cwd="/", capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout


def test_clocks_that_are_surely_off_are_named(database: Database) -> None:
    clocks = {"good": (0.002, 0.01), "unsure": (3.0, 4.0), "ahead": (2.5, 0.001), "behind": (-60.2, 0.02)}
    with database.session() as connection:
        rows = [TargetRow(host, "node", "", "http://x") for host in clocks]
        ids = targets.claim_targets(connection, "a", "h", 1, rows)
        connection.execute("update targets set lease_until = now()")
        states = {
            one: TargetState(True, None, *clocks[row.host])
            for one, row in zip(ids, rows, strict=True)
            if one is not None
        }
        assert len(states) == 4
        targets.report_targets(connection, states, "a")
        connection.execute("update targets set last_seen = now()")
    said = " ".join(status(database.settings).split())
    assert "the clock of ahead is 2.5 s ahead of the collector's, give or take 1 ms" in said
    assert "the clock of behind is 1:00 behind the collector's, give or take 20 ms" in said
    assert "clock of good" not in said
    assert "clock of unsure" not in said
    told = json.loads(status(database.settings, "--json"))["clocks"]
    assert {one["host"]: (one["offset"], one["uncertainty"]) for one in told} == clocks
