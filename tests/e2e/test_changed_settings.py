"""A stack that is up, and a command with other settings."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import NewFolder
from tests.support.home import SCRIPTS, Home, open_gate
from tests.support.waiting import wait_for

BUSY = "import time; end = time.monotonic() + 4\nwhile time.monotonic() < end: pass"
# `bench run` without an experiment.
AD_HOC = 1_000_000


@pytest.fixture
def stack(new_folder: NewFolder) -> Iterator[Home]:
    folder = new_folder()
    with Home(folder / "home", folder / "work").stack() as home:
        yield home


def accepted(home: Home, *words: str) -> str | None:
    """Return the output of a command in one line; ``None`` if it is refused, as while the run before is delivered."""
    command = home.start(*words)
    return None if command.process.wait() == 2 else " ".join(command.wait().split())


def test_a_run_with_another_database_is_measured_there_or_refused(stack: Home, dsn: str, tmp_path: Path) -> None:
    other = Home(stack.path, tmp_path, {"BENCH_DSN": dsn})
    gate = tmp_path / "gate"
    waiting = stack.start("run", "--", sys.executable, SCRIPTS / "gate.py", gate)
    stack.running(AD_HOC)
    refused = " ".join(other.bench("run", "--", "true", status=2).split())
    assert "the running collector, mlflow and rules were started with no BENCH_DSN, and 1 run may need them" in refused
    open_gate(gate, 0)
    waiting.wait()

    services = other.json("status")["services"]
    assert {name for name, service in services.items() if service["differs"]} == {"collector", "mlflow", "rules"}
    assert [one["started_with"] for one in services["collector"]["differs"]] == ["no BENCH_DSN"]
    assert "run with no BENCH_DSN" in " ".join(other.bench("status").split())

    said = wait_for(lambda: accepted(other, "run", "--", sys.executable, "-c", BUSY), "the end of the run's delivery")
    assert "were started with no BENCH_DSN; restarting them with BENCH_DSN=" in said
    [run] = other.runs(AD_HOC)
    counted = other.query(
        "select quantity, count(*) from run_samples where run_id = %s and scope = 'process' group by 1", run["run_id"]
    )
    assert {"cpu_usage", "memory_used"} <= {row["quantity"] for row in counted}
    assert not any(service["differs"] for service in other.json("status")["services"].values())
    assert len(stack.json("list", f"{AD_HOC}")) == 1
