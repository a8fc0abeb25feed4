"""The command ``export``."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from bench.cli.common import Json, as_json, console, reading
from bench.errors import BadRequest, did_you_mean
from insight.trace import write_trace
from sql.database import Connection
from sql.selection import select_runs
from sql.summaries import coverage

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command()(export)


def export(
    selectors: Annotated[list[str], typer.Argument(metavar="SELECTOR...", help="Experiments, workloads or runs.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The file to write; .json.gz is compressed.")],
    trace: Annotated[bool, typer.Option("--trace", help="A trace for Perfetto or chrome://tracing.")] = False,
    metrics: Annotated[
        list[str] | None, typer.Option("-m", "--metric", help="A quantity to show; by default all of the runs' own.")
    ] = None,
    json: Json = False,
) -> None:
    """Write runs to a file for other programs: phases, epochs, steps and spans above what the hardware did."""
    if not trace:
        raise BadRequest("bench export needs --trace: there is no other form yet")
    if not output.name.endswith((".json", ".json.gz")):
        raise BadRequest(f"a trace is written to a .json or .json.gz file, not to {output.name!r}")
    with reading() as connection:
        runs = select_runs(connection, selectors)
        if metrics:
            _refuse_unknown(connection, [run.run_id for run in runs], metrics)
        written = write_trace(connection, runs, output, metrics or None)
    if json:
        as_json({"file": str(output), **asdict(written)})
    else:
        counts = f"{written.spans} spans and {written.samples} samples of {written.runs} run{'s'[: written.runs != 1]}"
        console().print(
            f"Wrote {counts}; open {escape(shlex.quote(str(output)))} at https://ui.perfetto.dev, which sends it nowhere"
        )


def _refuse_unknown(connection: Connection, run_ids: list[str], metrics: list[str]) -> None:
    known = [one.quantity for one in coverage(connection, run_ids)]
    for name in metrics:
        if name not in known:
            raise BadRequest(f"these runs have no samples of {name!r}{did_you_mean(name, known)}")
