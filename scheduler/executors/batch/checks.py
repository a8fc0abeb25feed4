"""Checks of an experiment file against a batch system, before submission."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest
from hypergauge.scheduler.executors.base import BatchSystem
from hypergauge.scheduler.executors.batch.retry import Retry
from hypergauge.scheduler.experiment.csv_text import Problem
from hypergauge.scheduler.experiment.experiment_file import BadExperimentFile, ExperimentFile, Row
from hypergauge.scheduler.plan import checks
from hypergauge.scheduler.plan.checks import Reactions
from hypergauge.scheduler.plan.plan import Action, PlannedWorkload
from hypergauge.scheduler.plan.policy import Policy

__all__ = ["load", "refuse_rows", "refuse_workloads"]


def load(
    path: Path,
    settings: Settings,
    system: BatchSystem,
    policy: Policy,
    exporters: Collection[str],
    reactions: Reactions,
) -> ExperimentFile:
    """Read and check an experiment file for a batch system; `exporters` are the names of all exporters.

    Raises
    ------
    BadRequest
        The file has errors, or its hosts could not reach the database or the tracking server.
    """
    option = f"--executor {system.name}"
    if settings.dsn is None:
        raise BadRequest(
            f"{option} needs a database that its hosts reach: set BENCH_DSN to a server's, since the embedded one listens "
            "on a socket of this host alone"
        )
    if not (settings.tracking_uri or "").startswith(("http://", "https://")):
        raise BadRequest(
            f"{option} needs a tracking server that its hosts reach: set MLFLOW_TRACKING_URI to its http address, "
            f"not {settings.tracking_uri or 'nothing'}"
        )
    if policy.cooldown is not None:
        raise BadRequest(f"--cooldown waits for this host, but with {option} other hosts run the workloads")
    if policy.quiet_host is not None:
        raise BadRequest(f"--quiet-host waits for this host, but with {option} other hosts run the workloads")
    # Without reasons: only the hosts know which exporters work there.
    file = checks.load(path, None, dict.fromkeys(exporters), reactions)
    refuse_rows(system, file)
    return file


def refuse_rows(system: BatchSystem, file: ExperimentFile) -> None:
    """Refuse a file with rows that the batch system cannot run, without a request to it.

    Raises
    ------
    BadExperimentFile
        The message lists all problems.
    """
    groups: dict[tuple[int, int], list[Row]] = {}
    for row in file.rows:
        groups.setdefault((row.experiment, row.workload), []).append(row)
    problems = []
    for rows in groups.values():
        for row, column, message in system.problems(rows):
            cell = row.cells[column]
            problems.append(Problem(cell.line, cell.column, f"{column}: {message}"))
    if problems:
        raise BadExperimentFile(file.path, problems)


def refuse_workloads(
    system: BatchSystem, file: ExperimentFile, workloads: Sequence[PlannedWorkload], retry: Retry
) -> None:
    """Refuse a file with a workload that no host of the batch system can ever run.

    Raises
    ------
    BadExperimentFile
        The message lists all such workloads.
    """
    problems = []
    for workload in workloads:
        rows = [run.row for run in workload.runs if run.action is Action.RUN]
        if not rows:
            continue
        request = system.request(rows)
        if (why := retry.insist(partial(system.check, request, Path.cwd()))) is not None:
            cell = rows[0].cells["Workload"]
            problems.append(Problem(cell.line, cell.column, f"Workload: {why}"))
    if problems:
        raise BadExperimentFile(file.path, problems)
