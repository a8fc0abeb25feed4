"""Repetition of one run, by several commands."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import pytest

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest
from hypergauge.core.files.run_folder import RunFolder
from hypergauge.gpu import Inventory
from hypergauge.scheduler.executors.local import LocalExecutor
from hypergauge.scheduler.job import job_from_command
from hypergauge.scheduler.provenance.repeated_run import RepeatedRun
from hypergauge.scheduler.requests.single_run import repeat_run, run_command
from hypergauge.sql.runs import experiments, runs
from hypergauge.sql.schema.flavour import Flavour
from hypergauge.sql.server.database import Database
from hypergauge.sql.server.session import Session

pytestmark = pytest.mark.parametrize("flavour", [Flavour.POSTGRESQL], indirect=True, ids=["postgresql"])


def test_concurrent_repetitions_of_a_run_are_serialized(
    database: Database, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    executor = LocalExecutor(database, settings, None, Inventory(), lambda _: None)
    first = run_command(executor, job_from_command([sys.executable, "-c", "pass"], name=None, devices=None))
    recorded = RepeatedRun.read("1000000/1/1", RunFolder(settings.runs_dir / first.run_id), "here")
    with database.session() as connection:
        [known] = runs.known_runs(connection, experiments.COMMAND_EXPERIMENT)
        job = recorded.job(Inventory(), {}, known, attempt=2)
    with Session(database) as other:
        other.lock(partial(experiments.lock_command, workload=known.workload))
        with pytest.raises(BadRequest, match=r"1000000/1 is being repeated by another command; `bench stop 1000000/1`"):
            repeat_run(executor, recorded, job, experiments.COMMAND_EXPERIMENT, known.workload)
    # Both had read that attempt 2 is the next.
    for attempt in (2, 3):
        [outcome] = repeat_run(executor, recorded, job, experiments.COMMAND_EXPERIMENT, known.workload)
        assert (outcome.job.attempt, outcome.status) == (attempt, "finished")
