"""Plan: the position and attempt of each row, and the rows still to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from hypergauge.scheduler.experiment.experiment_file import Row, fingerprint
from hypergauge.sql.runs.runs import KnownRun

__all__ = ["Action", "PlannedRun", "PlannedWorkload", "is_due", "plan"]

# What `--rerun failed` repeats.
UNSUCCESSFUL = frozenset({"failed", "timeout", "stopped"})


class Action(StrEnum):
    """Fate of a row."""

    RUN = "run"
    RESUME = "resume"  # it says running: attach to its supervisor, or repeat it where that is gone
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A row with its place in the experiment. `previous` is the run that its ``Run`` cell or fingerprint names."""

    row: Row
    position: int
    attempt: int
    action: Action
    previous: KnownRun | None


@dataclass(frozen=True, slots=True)
class PlannedWorkload:
    """The rows of one workload, in the file's order."""

    experiment: int
    workload: int
    runs: tuple[PlannedRun, ...]

    @property
    def due(self) -> bool:
        """Return whether anything is to be done."""
        return any(run.action is not Action.SKIP for run in self.runs)


def is_due(row: Row, rerun: str | None) -> bool:
    """Return whether a row's own cells say that something is to be done: it is empty, says running, or is to be repeated."""
    return row.status in ("", "running") or rerun == "all" or (rerun == "failed" and row.status in UNSUCCESSFUL)


def plan(
    rows: Sequence[Row],
    known: Mapping[int, list[KnownRun]],
    *,
    rerun: str | None = None,
    numbers: Mapping[int, Mapping[int, int]] | None = None,
) -> list[PlannedWorkload]:
    """Plan the workloads of a file, in the order in which they first appear.

    Parameters
    ----------
    rows
        The file's rows.
    known
        The runs that each experiment has had, by experiment.
    rerun
        ``failed`` repeats what failed, timed out or was stopped, ``all`` everything.
    numbers
        The numbers of workloads in each experiment by those in the file, where they are not the same.
    """
    groups: dict[tuple[int, int], list[Row]] = {}
    for row in rows:
        workload = (numbers or {}).get(row.experiment, {}).get(row.workload, row.workload)
        groups.setdefault((row.experiment, workload), []).append(row)
    return [
        PlannedWorkload(
            experiment,
            workload,
            tuple(_place(group, [run for run in known.get(experiment, ()) if run.workload == workload], rerun)),
        )
        for (experiment, workload), group in groups.items()
    ]


def _place(rows: list[Row], known: list[KnownRun], rerun: str | None) -> Iterable[PlannedRun]:
    """Give each row of a workload its position and attempt.

    A row that names one of the workload's runs in its ``Run`` cell keeps that run's position while it is the same row;
    a row without one takes up the position of an equal row of the past that no other row of the file has. All others
    get new positions. So no run is ever attributed to another row, wherever rows are inserted, copied or changed.
    """
    latest: dict[int, KnownRun] = {}
    for run in known:
        latest[run.position] = run
    by_id = {identity: run for run in known for identity in (run.run_id, run.mlflow_run_id) if identity}
    owners: dict[int, Row] = {}
    for row in rows:
        named = by_id.get(row.run)
        if named is not None and named.fingerprint == fingerprint(row):
            owners.setdefault(named.position, row)
    for row in rows:
        if row not in owners.values() and row.run not in by_id:
            same = (
                position
                for position, run in latest.items()
                if position not in owners and run.fingerprint == fingerprint(row)
            )
            if (position := next(same, None)) is not None:
                owners[position] = row
    positions = {row.line: position for position, row in owners.items()}
    next_position = max(latest, default=0) + 1
    for row in rows:
        if row.line not in positions:
            positions[row.line] = next_position
            next_position += 1
        position = positions[row.line]
        previous = latest.get(position)
        action = _action(row, previous, by_id.get(row.run), rerun)
        last = previous.attempt if previous else 0
        yield PlannedRun(row, position, last if action is Action.SKIP else last + 1, action, previous)


def _action(row: Row, previous: KnownRun | None, named: KnownRun | None, rerun: str | None) -> Action:
    if row.status == "running":
        # A job that was started once more has repeated the run that the row names.
        same = previous and named and (previous.run_id == named.run_id or previous.job == named.job is not None)
        return Action.RESUME if same else Action.RUN
    if row.status == "":
        # Its run was recorded, or queued, but the file not yet written back when the scheduler died.
        goes_on = previous and (previous.status in ("pending", "running") or previous.job_goes_on)
        return Action.RESUME if goes_on else Action.RUN
    return Action.RUN if is_due(row, rerun) else Action.SKIP
