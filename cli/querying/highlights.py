"""Command ``highlights``."""

from __future__ import annotations

from dataclasses import asdict

from hypergauge.cli.common import Json, Run, as_json, console, reading
from hypergauge.cli.help import Commands
from hypergauge.core.errors import NoData
from hypergauge.dashboards.terminal import tables
from hypergauge.sql.runs.selection import select_run

__all__ = ["register"]


def register(app: Commands) -> None:
    """Add the command to `app`."""
    app.command(examples={"bench highlights 1/3/2": "what stood out in this run"})(highlights)


def highlights(run: Run, json: Json = False) -> None:
    """Show a run in ten lines: phases, repetitions, changes, outliers."""
    # With scipy and ruptures: slow to import.
    from hypergauge.insight.highlights import highlight

    with reading(measured=[run]) as connection:
        chosen = select_run(connection, run)
        if chosen.started_at is None:
            raise NoData(f"{chosen.label} has not started")
        found = highlight(connection, chosen.run_id)
    if json:
        as_json({"run": chosen.label, "run_id": chosen.run_id, "highlights": [asdict(one) for one in found]})
        return
    console().print(tables.highlights(chosen, found))
