"""Command ``highlights``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from hypergauge.cli.common import Json, as_json, console, reading
from hypergauge.core.errors import NoData
from hypergauge.dashboards.terminal import tables
from hypergauge.sql.runs.selection import select_run

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command()(highlights)


def highlights(run: Annotated[str, typer.Argument(help="A run.")], json: Json = False) -> None:
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
