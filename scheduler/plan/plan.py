"""Plan of a file: position, attempt and action of each row."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from hypergauge.scheduler.experiment.experiment_file import Row, fingerprint
from hypergauge.sql.runs.runs import KnownRun

__all__ = ["Action", "PlannedRun", "PlannedWorkload", "is_due", "plan"]

# Statuses that `--rerun failed` repeats.
UNSUCCESSFUL = frozenset({"failed", "timeout", "stopped"})


class Action(StrEnum):
    """Action for a row."""

    RUN = "run"
    RESUME = "resume"  # the run may still be running: attach to its supervisor, or repeat the run if there is none
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """Row with its position in the workload. `previous` is the latest run at that position."""

    row: Row
    position: int
    attempt: int
    action: Action
    previous: KnownRun | None

    @property
    def first_attempt(self) -> int:
        """Return the attempt to run or to resume; `attempt` follows one that has no supervisor."""
        return self.previous.attempt if self.action is Action.RESUME and self.previous else self.attempt


@dataclass(frozen=True, slots=True)
class PlannedWorkload:
    """Rows of one workload, in file order."""

    experiment: int
    workload: int
    runs: tuple[PlannedRun, ...]

    @property
    def due(self) -> bool:
        """Return whether any row is to run."""
        return any(run.action is not Action.SKIP for run in self.runs)


def is_due(row: Row, rerun: str | None) -> bool:
    """Return whether a row is to run by its status: empty, running, or selected by `rerun`."""
    return row.status in ("", "running") or rerun == "all" or (rerun == "failed" and row.status in UNSUCCESSFUL)


def plan(
    rows: Sequence[Row],
    known: Mapping[int, list[KnownRun]],
    *,
    rerun: str | None = None,
    numbers: Mapping[int, Mapping[int, int]] | None = None,
) -> list[PlannedWorkload]:
    """Plan the workloads of a file, in the order of their first rows.

    Parameters
    ----------
    rows
        Rows of the file.
    known
        Existing runs, by experiment.
    rerun
        ``failed`` repeats failed, timed-out and stopped runs; ``all`` repeats all runs.
    numbers
        Workload numbers in the database, by experiment and by number in the file, where they differ.
    """
    groups: dict[tuple[int, int], list[Row]] = {}
    for row in rows:
        workload = (numbers or {}).get(row.experiment, {}).get(row.workload, row.workload)
        groups.setdefault((row.experiment, workload), []).append(row)
    past: dict[tuple[int, int], list[KnownRun]] = {}
    for experiment, runs in known.items():
        for run in runs:
            past.setdefault((experiment, run.workload), []).append(run)
    return [PlannedWorkload(*key, runs=tuple(_place(group, past.get(key, []), rerun))) for key, group in groups.items()]


def _place(rows: list[Row], known: list[KnownRun], rerun: str | None) -> Iterable[PlannedRun]:
    """Assign a position and an attempt to each row of a workload.

    A row whose ``Run`` cell names a run of the workload keeps that run's position while its fingerprint matches. A row
    without a known run takes the free position of a past run with the same fingerprint. All other rows get new
    positions. A run is therefore never attributed to another row, even if rows are inserted, copied or edited.
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
    owning = {row.line for row in owners.values()}
    free: dict[str, deque[int]] = {}
    for position, run in latest.items():
        if position not in owners:
            free.setdefault(run.fingerprint, deque()).append(position)
    for row in rows:
        if free and row.line not in owning and row.run not in by_id and (same := free.get(fingerprint(row))):
            owners[same.popleft()] = row
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
        # A restarted batch job repeats the run that the row names, under a new run id.
        same = previous and named and (previous.run_id == named.run_id or previous.job == named.job is not None)
        return Action.RESUME if same else Action.RUN
    if row.status == "":
        # The scheduler may have recorded or queued the run, and died before it wrote the status back.
        is_open = previous and (previous.status in ("pending", "running") or previous.job_is_open)
        return Action.RESUME if is_open else Action.RUN
    return Action.RUN if is_due(row, rerun) else Action.SKIP
