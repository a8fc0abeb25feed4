"""Preview of a file's schedule, checked against the database and the devices before anything starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest
from hypergauge.gpu import Inventory, inventory
from hypergauge.scheduler.devices.devices import Devices
from hypergauge.scheduler.executors.base import BatchSystem, Stopping
from hypergauge.scheduler.executors.batch.checks import refuse_workloads
from hypergauge.scheduler.executors.batch.retry import Retry
from hypergauge.scheduler.experiment.experiment_file import ExperimentFile
from hypergauge.scheduler.plan.collocation import Partition, partitions
from hypergauge.scheduler.plan.exporters import live_choices, measuring_notes
from hypergauge.scheduler.plan.file_plan import numbers, planned
from hypergauge.scheduler.plan.kernel_sources import check_kernel_sources
from hypergauge.scheduler.plan.plan import PlannedWorkload
from hypergauge.scheduler.plan.profilers import profiler_notes
from hypergauge.sql.runs.experiments import owner_problem
from hypergauge.sql.server.session import Session

__all__ = ["Preview", "check_owner", "preview"]


@dataclass(frozen=True, slots=True)
class Preview:
    """Planned workloads, the MIG instances of this host's GPUs during each, and its GPUs; with a batch system only the first."""

    workloads: Sequence[PlannedWorkload]
    partitions: Sequence[Partition] = ()
    inventory: Inventory | None = None


def check_owner(session: Session, file: ExperimentFile) -> None:
    """Check that the file's experiments belong to no other file, before the stack starts.

    Raises
    ------
    BadRequest
        An experiment belongs to another file; names the line of its first row.
    """
    first = {row.experiment: row for row in reversed(file.rows)}
    for row in sorted(first.values(), key=lambda row: row.line):
        if problem := session(owner_problem, row.experiment, str(file.path.resolve())):
            raise BadRequest(problem, file=file.path, line=row.line)


def preview(
    settings: Settings, session: Session, file: ExperimentFile, rerun: str | None, system: BatchSystem | None,
    notify: Callable[[str], None], warn: Callable[[str], None],
) -> Preview:  # fmt: skip
    """Return the plan of a file, and check that this host's GPUs or the batch system can run it.

    Parameters
    ----------
    notify
        Receiver of messages on unknown columns and on workloads with other numbers in the database.
    warn
        Receiver of warnings while the batch system does not answer.

    Raises
    ------
    BadRequest
        The devices or the batch system cannot run the workloads, or a row names a run without kernels.
    """
    if unknown := _unknown_columns(file, system):
        notify(f"Unknown columns, kept unchanged: {', '.join(unknown)}")
    workloads = session(planned, file, rerun)
    session(check_kernel_sources, file, workloads)
    for experiment, found in session(numbers, file).items():
        _report_numbers(experiment, found, notify)
    if system is None:
        for line in measuring_notes(
            workloads, session(live_choices, {row.run for row in file.rows}), settings.interval
        ):
            notify(line)
        for line in profiler_notes(workloads):
            notify(line)
        gpus = inventory(settings.simulate, settings.home)
        return Preview(workloads, partitions(session, file, workloads, gpus, Devices(settings)), gpus)
    refuse_workloads(system, file, workloads, Retry(warn, Stopping()))
    return Preview(workloads)


def _unknown_columns(file: ExperimentFile, system: BatchSystem | None) -> list[str]:
    # The column of an executor has the executor's name, as `Slurm` does.
    own = None if system is None else system.name.casefold()
    return [name for name in file.unknown_columns if name.casefold() != own]


def _report_numbers(experiment: int, found: Mapping[int, int], notify: Callable[[str], None]) -> None:
    """Report the workloads whose numbers in the database differ from those in the file."""
    others = {written: number for written, number in found.items() if written != number}
    if others:
        taken, own = (", ".join(f"{experiment}/{one}" for one in ones) for ones in (others, others.values()))
        notify(f"{taken} belong to another file; this file's workloads are {own}.")
