"""Plan of ``bench schedule``: checks and display before anything starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.markup import escape

from hypergauge.cli.common import console
from hypergauge.core.config.bench_toml import config_file
from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest
from hypergauge.dashboards.terminal import tables
from hypergauge.gpu import inventory
from hypergauge.insight.rules.chosen import ChosenRules
from hypergauge.scheduler.devices.instances import shown
from hypergauge.scheduler.experiment import parameters
from hypergauge.scheduler.experiment.experiment_file import ExperimentFile
from hypergauge.scheduler.plan.checks import Reactions
from hypergauge.scheduler.plan.plan import Action, PlannedWorkload
from hypergauge.sql.server.database import Database
from hypergauge.sql.server.session import Session

if TYPE_CHECKING:
    from hypergauge.scheduler.executors.base import BatchSystem
    from hypergauge.scheduler.plan.collocation import Partition

__all__ = ["check", "reactions", "refuse_foreign"]


def reactions() -> Reactions:
    """Return the rules and actions that rows may name, from ``bench.toml``.

    Raises
    ------
    BadRequest
        The settings or the file of a rule have errors.
    """
    chosen = ChosenRules.read(config_file())
    return Reactions([one.rule.name for one in chosen.enabled], chosen.off, chosen.settings.action_names())


def refuse_foreign(database: Database, file: ExperimentFile, into: bool) -> None:
    """Refuse a file whose experiment belongs to another file, before the stack starts."""
    from hypergauge.sql.runs.experiments import owner_problem

    with database.session() as connection:
        for row in file.rows:
            problem = None if into else owner_problem(connection, row.experiment, str(file.path.resolve()))
            if problem:
                raise BadRequest(problem, file=file.path, line=row.line)


def check(
    settings: Settings, database: Database, file: ExperimentFile, rerun: str | None, repeat: int, *,
    show: bool, system: BatchSystem | None = None,
) -> None:  # fmt: skip
    """Check that this host's GPUs or the batch system can run the workloads; with `show`, show the plan.

    Unknown columns are reported.
    """
    from hypergauge.scheduler.devices.devices import Devices
    from hypergauge.scheduler.plan.collocation import partitions
    from hypergauge.scheduler.plan.file_plan import numbers, planned

    # The column of an executor has the executor's name, as `Slurm` does.
    unknown = [name for name in file.unknown_columns if system is None or name.casefold() != system.name.casefold()]
    if unknown:
        console().print(f"Unknown columns, kept unchanged: {escape(', '.join(unknown))}", soft_wrap=True)
    divided: Sequence[Partition] = []
    with Session(database, timeout=0) as session:
        workloads = session(planned, file, rerun)
        _show_numbers(session(numbers, file))
        if system is None:
            gpus = inventory(settings.simulate, settings.home)
            divided = partitions(session, file, workloads, gpus, Devices(settings))
    if system is not None:
        from hypergauge.scheduler.executors.base import Stopping
        from hypergauge.scheduler.executors.batch.checks import refuse_workloads
        from hypergauge.scheduler.executors.batch.retry import Retry

        retry = Retry(lambda message: console().print(f"[yellow]![/] {escape(message)}"), Stopping())
        refuse_workloads(system, file, workloads, retry)
    if show:
        _show_plan(workloads, repeat)
        _show_partitions(divided)


def _show_numbers(numbers: Mapping[int, Mapping[int, int]]) -> None:
    """Show the workloads whose numbers in the database differ from those in the file."""
    for experiment, found in numbers.items():
        others = {written: number for written, number in found.items() if written != number}
        if others:
            taken, own = (", ".join(f"{experiment}/{one}" for one in ones) for ones in (others, others.values()))
            console().print(f"{taken} belong to another file; this file's workloads are {own}.", soft_wrap=True)


def _show_plan(workloads: Sequence[PlannedWorkload], repeat: int) -> None:
    made = tables.table("run", "attempt", "name", "action", "environment", "devices", "collocation", "command")
    for workload in workloads:
        for one in workload.runs:
            row = one.row
            done = one.action is Action.SKIP
            last = one.attempt if done else one.attempt + repeat - 1
            made.add_row(
                f"{workload.experiment}/{workload.workload}/{one.position}",
                str(one.attempt) if last == one.attempt else f"{one.attempt}-{last}",
                escape(row.name),
                "is done" if done else str(one.action),
                escape(str(row.environment)),
                "+".join(row.devices) or "none (GPUs are hidden)",
                str(row.collocation),
                escape(parameters.shown([row.script or row.model or "", *row.params])),
            )
    console().print(made)
    if repeat > 1:
        console().print(f"The workloads run in turn, {repeat} times each.")


def _show_partitions(divided: Sequence[Partition]) -> None:
    """Show the MIG instances of each GPU outside and during each workload."""
    if not divided:
        return
    made = tables.table("workload", "GPU", "MIG instances before and after", "for its runs")
    for one in divided:
        layout = one.choice.layout
        made.add_row(
            f"{one.experiment}/{one.workload}",
            escape(f"{layout.index} ({layout.name})"),
            shown(layout.placed) or "none",
            one.choice.shown,
        )
    console().print(made)
