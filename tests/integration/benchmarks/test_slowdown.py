"""Slow-down of a real training by real exporters, collector and supervisor."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from benchmarks.measurement.slowdown import LEASE_SECONDS, slow_down
from benchmarks.support.stack import running
from benchmarks.training.stepping import TrainingKind
from hypergauge.sql.server.database import Database


@pytest.mark.slow
def test_measuring_is_switched_within_a_training_under_a_supervisor(database: Database, tmp_path: Path) -> None:
    with running(database, tmp_path, ("process",), lease=LEASE_SECONDS) as stack:
        found = slow_down(stack, tmp_path, TrainingKind.COMPUTE, seconds=1, seed=1)
        assert all(process.poll() is None for process in (stack.collector, *stack.exporters.values()))
    assert float(found["blocks"]) + float(found["placebo_blocks"]) == 1
    assert found["resolved"] == "not resolved"
    assert 0 < float(found["measuring_cpu_share"]) < 1
    assert float(found["collector_cpu_share"]) > 0
    with database.session() as connection:
        rows = connection.execute("select status from runs").fetchall()
        measured = connection.execute("select count(*) from run_samples where quantity = 'cpu_usage'").fetchone()
    assert rows == [("stopped",)]
    assert measured is not None
    assert measured[0] > 0
    assert not [one for one in psutil.process_iter(["cmdline"]) if str(tmp_path) in " ".join(one.info["cmdline"] or ())]
