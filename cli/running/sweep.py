"""Command ``sweep``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from hypergauge.cli.common import console
from hypergauge.cli.help import Commands
from hypergauge.core.errors import BadRequest
from hypergauge.dashboards.terminal import tables
from hypergauge.scheduler.experiment import sweep as sweeps

__all__ = ["register"]


def register(app: Commands) -> None:
    """Add the command to `app`."""
    app.command(
        examples={
            "bench sweep sweep.toml --dry-run": "show the rows",
            "bench sweep sweep.toml -o experiments.csv": "write them, for `bench schedule`",
        }
    )(sweep)


def sweep(
    spec: Annotated[Path, typer.Argument(metavar="FILE", help="The sweep: a TOML file, or one of radT in YAML.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE.csv", help="The experiment file to write.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the rows, and write nothing.")] = False,
) -> None:
    """Write the experiment file of a grid or a random search."""
    if output is None and not dry_run:
        raise BadRequest("add -o FILE.csv to write the rows, or --dry-run to show them")
    made = sweeps.rows_of(spec)
    workloads = len({row["Workload"] for row in made})
    if dry_run:
        columns = [name for name in made[0] if any(row[name] for row in made)]
        shown = tables.table(*columns)
        for row in made:
            shown.add_row(*(escape(row[name]) for name in columns))
        console().print(shown)
        console().print(f"{len(made)} rows in {workloads} workloads")
        return
    assert output is not None
    sweeps.write(output, made)
    console().print(
        f"Wrote {len(made)} rows in {workloads} workloads; show them with: "
        f"bench schedule --dry-run {escape(shlex.quote(str(output)))}"
    )
