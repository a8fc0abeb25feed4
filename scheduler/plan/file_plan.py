"""Plan of an experiment file: its experiments and workload numbers in the database, and the statuses written back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from hypergauge.core.errors import BadRequest
from hypergauge.scheduler.events import Event, Report
from hypergauge.scheduler.experiment.experiment_file import ExperimentFile, Row
from hypergauge.scheduler.plan.plan import PlannedWorkload, plan
from hypergauge.sql.runs import experiments, file_workloads, runs
from hypergauge.sql.server.database import Connection
from hypergauge.sql.server.session import Session

__all__ = ["WriteBack", "numbers", "planned", "take_experiments", "writer"]

# Writes ``{line: (status, run id)}`` into a file.
WriteBack = Callable[[Mapping[int, tuple[str, str]]], None]


def planned(connection: Connection, file: ExperimentFile, rerun: str | None) -> list[PlannedWorkload]:
    """Return the current plan of a file."""
    known = {experiment: runs.known_runs(connection, experiment) for experiment in _rows(file)}
    return plan(file.rows, known, rerun=rerun, numbers=numbers(connection, file))


def numbers(connection: Connection, file: ExperimentFile) -> dict[int, dict[int, int]]:
    """Return the workload numbers in the database, by experiment and by number in the file."""
    return {
        experiment: file_workloads.workload_numbers(
            connection, experiment, _source(connection, file, experiment, rows), [row.workload for row in rows]
        )
        for experiment, rows in _rows(file).items()
    }


def take_experiments(session: Session, file: ExperimentFile, *, into: bool) -> list[int]:
    """Assign the experiments of a file to it, and lock them for the life of the session; return their ids.

    Raises
    ------
    BadRequest
        An experiment belongs to another file and `into` is false, or another command is scheduling it.
    """
    groups, source = _rows(file), str(file.path.resolve())
    for experiment, rows in groups.items():
        session(experiments.claim_experiment, experiment, name=file.path.stem, source=source, into=into)
        session.lock(partial(experiments.lock_experiment, experiment=experiment))
        session(experiments.take_up, experiment)
        session(file_workloads.take_over, experiment, session(_source, file, experiment, rows), source)
    for experiment, found in session(numbers, file).items():
        session(file_workloads.record, experiment, source, found)
    return list(groups)


def _rows(file: ExperimentFile) -> dict[int, list[Row]]:
    """Return the rows of each experiment, in file order."""
    rows: dict[int, list[Row]] = {}
    for row in file.rows:
        rows.setdefault(row.experiment, []).append(row)
    return rows


def _source(connection: Connection, file: ExperimentFile, experiment: int, rows: Sequence[Row]) -> str:
    """Return the path that the database has for a file: its current path, or its path before it was moved.

    A file was moved if its rows name runs of a path that no longer exists. If that path exists, this file is a copy.
    """
    source = str(file.path.resolve())
    named = [row.run for row in rows if row.run]
    before = file_workloads.files_of_runs(connection, experiment, named)
    moved = source not in before and not any(Path(one).exists() for one in before)
    return before[0] if before and moved else source


def writer(file: ExperimentFile, report: Report) -> WriteBack:
    """Return the function that writes statuses into a file; it is thread-safe."""
    lock = threading.Lock()

    def write_back(rows: Mapping[int, tuple[str, str]]) -> None:
        # A moved file does not end its experiment: the database has all statuses.
        try:
            with lock:
                missing = file.update(rows)
        except BadRequest as error:
            report(Event("warning", "", message=f"statuses were not written back: {error}"))
        else:
            for line in missing:
                report(Event("warning", "", message=f"the row of line {line} is no longer in {file.path.name}"))

    return write_back
