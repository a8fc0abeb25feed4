"""Tables of ``bench schedule --dry-run``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.markup import escape

from hypergauge.cli.common import console
from hypergauge.dashboards.terminal import tables
from hypergauge.dashboards.terminal.fitting import Field, fitted
from hypergauge.scheduler.devices.instances import shown
from hypergauge.scheduler.experiment import parameters
from hypergauge.scheduler.plan.plan import Action, PlannedRun, PlannedWorkload
from hypergauge.scheduler.plan.visible_devices import shown_devices

if TYPE_CHECKING:
    from hypergauge.gpu import Inventory
    from hypergauge.scheduler.experiment.experiment_file import Row
    from hypergauge.scheduler.plan.collocation import Partition

__all__ = ["show_partitions", "show_plan"]

# Rich lays out about 2,000 rows a second.
_MOST_ROWS = 1000


def show_plan(workloads: Sequence[PlannedWorkload], repeat: int, inventory: Inventory | None) -> None:
    """Show the actions of the first rows, and their numbers; without an inventory, the GPUs of its host are not known."""
    planned = [(workload, run) for workload in workloads for run in workload.runs]
    runs = planned[:_MOST_ROWS]
    rows = [one.row for _, one in runs]
    out = console()
    out.print(
        fitted(
            [
                Field("run", [f"{of.experiment}/{of.workload}/{one.position}" for of, one in runs]),
                Field("attempt", [_attempts(one, repeat) for _, one in runs]),
                Field("name", [escape(row.name) for row in rows], wraps=True),
                Field("action", [_action(run) for _, run in runs]),
                Field("environment", [escape(str(row.environment)) for row in rows], 2),
                Field("devices", [shown_devices(row, inventory) for row in rows], wraps=True),
                Field("collocation", [str(row.collocation) for row in rows], 1),
                Field("command", [escape(_command(row)) for row in rows], wraps=True),
            ],
            out.width,
            further="A wider terminal has all.",
        )
    )
    if len(planned) > len(runs):
        counts = Counter(_action(run) for _, run in planned)
        actions = ", ".join(f"{action}: {count:,}" for action, count in counts.items())
        console().print(f"These are the first {_MOST_ROWS:,} of {len(planned):,} rows ({actions}).")
    if repeat > 1:
        console().print(f"The workloads run in turn, {repeat} times each.")


def _action(run: PlannedRun) -> str:
    return "is done" if run.action is Action.SKIP else str(run.action)


def _attempts(one: PlannedRun, repeat: int) -> str:
    first = one.first_attempt
    last = first if one.action is Action.SKIP else first + repeat - 1
    return str(first) if last == first else f"{first}-{last}"


def _command(row: Row) -> str:
    return parameters.shown([row.script or row.model or "", *row.params])


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
