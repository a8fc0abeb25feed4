"""Commands ``list`` and ``metrics``."""

from __future__ import annotations

import getpass
from dataclasses import asdict
from typing import Annotated

import typer

from hypergauge.cli.common import SELECTOR, Attempts, Json, SomeSelectors, as_json, console, every_attempt, reading
from hypergauge.cli.help import Commands
from hypergauge.core.errors import NoData
from hypergauge.dashboards.terminal import tables
from hypergauge.insight.charts.tensors import available
from hypergauge.sql.queries.charts.charts import software_keys
from hypergauge.sql.queries.charts.tensors import tensor_collections
from hypergauge.sql.queries.summaries import coverage
from hypergauge.sql.runs.selection import check_owner, list_experiments, select_runs

__all__ = ["register"]


def register(app: Commands) -> None:
    """Add the commands to `app`."""
    app.command(
        "list",
        examples={
            "bench list": "all experiments",
            "bench list 1 --attempts all": "all runs of experiment 1, repeated ones too",
        },
    )(list_)
    app.command(
        examples={
            "bench metrics": "of all runs",
            "bench metrics 1/3": "of the runs of a workload",
        }
    )(metrics)


def list_(
    selector: Annotated[
        str | None, typer.Argument(metavar="SELECTOR", help=f"{SELECTOR} By default all experiments.")
    ] = None,
    attempts: Attempts = "latest",
    user: Annotated[
        str | None, typer.Option(metavar="NAME", help="List only runs of this user; 'me' for your own.")
    ] = None,
    json: Json = False,
) -> None:
    """List experiments, or the runs of one, with status and duration."""
    every = every_attempt(attempts)
    owner = getpass.getuser() if user == "me" else user
    with reading() as connection:
        if owner is not None:
            check_owner(connection, owner)
        if selector is None:
            experiments = list_experiments(connection, owner)
            as_json([asdict(one) for one in experiments]) if json else console().print(
                tables.experiments(experiments, console().width)
                if experiments
                else "There are no experiments yet; `bench demo` makes one."
            )
        else:
            runs = select_runs(connection, [selector], every_attempt=every)
            if owner is not None and not (runs := [run for run in runs if run.owner == owner]):
                raise NoData(f"{owner} has no run in {selector}")
            as_json([{**asdict(run), "run": run.label} for run in runs]) if json else console().print(
                tables.runs(runs, console().width)
            )


def metrics(selectors: SomeSelectors = None, json: Json = False) -> None:
    """Show the available quantities, with unit, scope and source."""
    with reading(measured=selectors or []) as connection:
        ids = [run.run_id for run in select_runs(connection, selectors)] if selectors else None
        tensors = tensor_collections(connection, ids)
        logged = software_keys(connection, list({one.run_id for one in tensors}))
        found = [*coverage(connection, ids), *available(tensors, logged)]
    if not found:
        raise NoData("there are no samples yet; `bench demo` makes some")
    as_json([asdict(one) for one in found]) if json else console().print(tables.coverage(found, console().width))
