"""Tables of ``bench schedule --dry-run``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.markup import escape

from hypergauge.cli.common import console
from hypergauge.dashboards.terminal import tables
from hypergauge.scheduler.devices.instances import shown
from hypergauge.scheduler.experiment import parameters
from hypergauge.scheduler.plan.plan import Action, PlannedWorkload

if TYPE_CHECKING:
    from hypergauge.scheduler.plan.collocation import Partition

__all__ = ["show_partitions", "show_plan"]


def show_plan(workloads: Sequence[PlannedWorkload], repeat: int) -> None:
    """Show the action for each row of a file."""
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


def show_partitions(divided: Sequence[Partition]) -> None:
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
