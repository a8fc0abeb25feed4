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
from hypergauge.scheduler.events import Event
from hypergauge.scheduler.executors.local import LocalExecutor
from hypergauge.scheduler.job import job_from_command
from hypergauge.scheduler.plan.policy import Policy
from hypergauge.scheduler.provenance.repeated_run import RepeatedRun
from hypergauge.scheduler.requests.single_run import repeat_run, run_command
from hypergauge.scheduler.supervision import ask_to_stop
from hypergauge.sql.runs import experiments, runs
from hypergauge.sql.schema.flavour import Flavour
from hypergauge.sql.server.database import Database
from hypergauge.sql.server.session import Session

pytestmark = pytest.mark.parametrize("flavour", [Flavour.POSTGRESQL], indirect=True, ids=["postgresql"])


def test_a_repeated_command_has_an_attempt_for_each_repetition(database: Database, settings: Settings) -> None:
    executor = LocalExecutor(database, settings, None, Inventory(), lambda _: None)
    workload, outcomes = run_command(executor, job_from_command(["false"], name=None, devices=None), Policy(repeat=3))
    assert [(one.job.attempt, one.status) for one in outcomes] == [(1, "failed"), (2, "failed"), (3, "failed")]
    with database.session() as connection:
        known = runs.known_runs(connection, experiments.COMMAND_EXPERIMENT)
    assert sorted(one.attempt for one in known) == [1, 2, 3]
    assert {f"{experiments.COMMAND_EXPERIMENT}/{one.workload}" for one in known} == {workload}


def test_stopping_a_repetition_ends_the_others(database: Database, settings: Settings) -> None:
    def stop(event: Event) -> None:
        if event.kind == "started":
            assert ask_to_stop(RunFolder(settings.runs_dir / event.run_id))

    executor = LocalExecutor(database, settings, None, Inventory(), stop)
    job = job_from_command(["sleep", "600"], name=None, devices=None)
    _, outcomes = run_command(executor, job, Policy(repeat=3))
    assert [(one.job.attempt, one.status) for one in outcomes] == [(1, "stopped")]


def test_concurrent_repetitions_of_a_run_are_serialized(
    database: Database, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    executor = LocalExecutor(database, settings, None, Inventory(), lambda _: None)
    _, [first] = run_command(executor, job_from_command([sys.executable, "-c", "pass"], name=None, devices=None))
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
