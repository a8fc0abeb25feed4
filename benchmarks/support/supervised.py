"""Run of a command under a supervisor of the product, in an experiment of a benchmark's database."""

from __future__ import annotations

import contextlib
import os
import platform
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from hypergauge.core.files.run_folder import RunFolder
from hypergauge.scheduler.active import ActiveRun, new_run
from hypergauge.scheduler.job import job_from_command
from hypergauge.scheduler.plan.policy import Policy
from hypergauge.scheduler.supervisor.order import Order
from hypergauge.sql.runs import experiments, runs
from hypergauge.sql.server.database import Database

__all__ = ["supervised"]


@contextlib.contextmanager
def supervised(
    database: Database,
    home: Path,
    words: Sequence[str],
    *,
    directory: Path,
    environment: Mapping[str, str],
    lease: float,
    timeout: float,
) -> Iterator[int]:
    """Run a command as ``bench run`` does, without MLflow, and yield the PID of its supervisor; end it afterwards.

    Parameters
    ----------
    home
        The ``BENCH_HOME``.
    lease, timeout
        The supervisor's lease, and the longest duration of the run, in seconds.
    """
    settings = replace(database.settings, home=home, lease=lease)
    job = job_from_command(words, name=None, devices=())
    folder = RunFolder(settings.runs_dir / uuid.uuid4().hex)
    folder.create({})
    active = ActiveRun(job, folder, None)
    active.start_supervisor()
    try:
        with database.session() as connection:
            experiment, number = experiments.next_command_workload(connection)
            workload_id = experiments.open_workload(connection, experiment, number)
            runs.create_runs(connection, [new_run(folder.run_id, job, workload_id, platform.node())])
            active.order(
                Order(
                    words=list(words),
                    directory=str(directory),
                    environment={**os.environ, **environment},
                    settings=settings.carried(),
                    policy=asdict(Policy(timeout=timeout)),
                    workload_began=None,
                    tracking_uri=None,
                    mlflow_run_id=None,
                    experiment=experiment,
                )
            )
            active.await_ready("the training")
            active.release(runs.start_runs(connection, workload_id, active.placements, lease=lease))
        assert active.process is not None
        yield active.process.pid
    finally:
        active.ask_to_stop()
        active.status = "stopped"
        active.detach()
