"""Check of the runs whose kernels rows limit Nsight Compute to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from hypergauge.core.errors import BadRequest
from hypergauge.core.selectors import Selector
from hypergauge.scheduler.experiment.csv_text import Problem
from hypergauge.scheduler.experiment.experiment_file import BadExperimentFile, ExperimentFile
from hypergauge.scheduler.plan.plan import Action, PlannedRun, PlannedWorkload
from hypergauge.scheduler.profilers.kernels import frequent_kernels, source_of
from hypergauge.scheduler.profilers.word import split_word
from hypergauge.sql.server.database import Connection

__all__ = ["check_kernel_sources"]

# Profilers that record the time of all kernels.
_RECORDS_KERNELS = frozenset({"nsys", "torch"})


def check_kernel_sources(connection: Connection, file: ExperimentFile, workloads: Sequence[PlannedWorkload]) -> None:
    """Check that each due ``ncu(from=RUN)`` names a profiled run, or a row that is profiled in an earlier workload.

    Raises
    ------
    BadExperimentFile
        It names neither.
    """
    if problems := list(_problems(connection, workloads)):
        raise BadExperimentFile(file.path, problems)


def _problems(connection: Connection, workloads: Iterable[PlannedWorkload]) -> Iterator[Problem]:
    coming: set[str] = set()
    for workload in workloads:
        due = [run for run in workload.runs if run.action is not Action.SKIP]
        for run in due:
            selector = source_of(run.row.wrappers)
            if selector is None:
                continue
            try:
                if str(Selector.parse(selector)) not in coming:
                    frequent_kernels(connection, selector)
            except BadRequest as error:
                cell = run.row.cells["Listeners"]
                yield Problem(cell.line, cell.column, f"Listeners: ncu(from={selector}): {error}")
        coming.update(f"{workload.experiment}/{workload.workload}/{run.position}" for run in due if _records(run))


def _records(run: PlannedRun) -> bool:
    return not _RECORDS_KERNELS.isdisjoint(name for name, _ in map(split_word, run.row.wrappers))
