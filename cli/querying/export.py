"""Commands ``export`` and ``import``."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from hypergauge.cli.common import (
    Json,
    PartEnd,
    PartPhase,
    PartStart,
    Selectors,
    as_json,
    check_folder,
    console,
    reading,
    warn,
)
from hypergauge.cli.help import Commands
from hypergauge.core.calls import Call
from hypergauge.core.config.settings import Settings
from hypergauge.core.listing import counted
from hypergauge.dashboards.terminal import formatting
from hypergauge.dashboards.terminal.bar import Bar
from hypergauge.insight.export.formats import Format, check_quantities
from hypergauge.insight.export.trace import write_trace
from hypergauge.insight.part import Part
from hypergauge.sql.queries.parts import RunPart
from hypergauge.sql.runs.selection import RunInfo, select_runs
from hypergauge.sql.server.database import Connection, Database

__all__ = ["register"]


def register(app: Commands) -> None:
    """Add the commands to `app`."""
    app.command(
        examples={
            "bench export 1 -o samples.parquet": "all samples, for pandas or Polars",
            "bench export 1 -o runs.capsule": "whole runs, for `bench import`",
            "bench export 1 --tensors -o tensors.csv": "reductions of tensors",
        }
    )(export)
    app.command(
        "import",
        examples={
            "bench import runs.capsule": "under the experiment that they had",
            "bench import runs.capsule --into 30": "under experiment 30",
        },
    )(import_)


def export(
    selectors: Selectors,
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Samples as .parquet, .csv or .csv.gz; whole runs as .capsule, for `bench import`.",
        ),
    ],
    trace: Annotated[
        bool, typer.Option("--trace", help="Write a trace for Perfetto or chrome://tracing, as .json or .json.gz.")
    ] = False,
    tensors: Annotated[
        bool, typer.Option("--tensors", help="Write a row for each tensor and step, instead of samples.")
    ] = False,
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            "-m",
            "--metric",
            metavar="QUANTITY",
            help="Export this quantity only; by default all, or in a trace those of the runs themselves. Can be repeated.",
        ),
    ] = None,
    start: PartStart = None,
    end: PartEnd = None,
    phase: PartPhase = None,
    json: Json = False,
) -> None:
    """Export runs to a file: samples, tensors, a capsule for another database, or a trace."""
    part = Part.of(start, end, phase)
    form = Format.of(output.name, trace=trace, tensors=tensors, metrics=metrics or (), part=part)
    check_folder(output)
    with reading(measured=selectors) as connection:
        runs = select_runs(connection, selectors)
        check_quantities(connection, [run.run_id for run in runs], metrics or ())
        parts = part.find(connection, runs) if part else None
        if form is Format.TRACE:
            _trace(connection, runs, output, metrics, parts, json=json)
        elif form is Format.CAPSULE:
            _capsule(connection, runs, output, json=json)
        elif form is Format.TENSORS:
            _tensors(connection, runs, output, parts, json=json)
        else:
            _samples(connection, runs, output, metrics, parts, json=json)


def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file of `bench export -o FILE.capsule`.")],
    into: Annotated[
        int | None,
        typer.Option(metavar="ID", min=0, help="Import into this experiment; by default the one that they had."),
    ] = None,
    json: Json = False,
) -> None:
    """Import the runs of another database: all new ones, or none."""
    from hypergauge.sql.transfer.importing import import_capsule  # with numpy: slow to import

    with Database(Settings.load()) as database, Bar("importing") as bar:
        imported = import_capsule(database, file, into, bar)
    if json:
        as_json({"file": str(file), **asdict(imported)})
        return
    if not imported.runs:
        console().print(f"Nothing to do: the database has all of its {counted(imported.here, 'run')} already")
        return
    here = f"; the database had {counted(imported.here, 'run')} of it already" if imported.here else ""
    where = " ".join(map(str, imported.experiments))
    console().print(
        f"Imported {counted(imported.runs, 'run')} with {counted(imported.samples, 'sample')}{here}; see `bench compare {where}`"
    )
    _note(imported.notes)


def _trace(
    connection: Connection, runs: Sequence[RunInfo], output: Path, metrics: list[str] | None,
    parts: Mapping[str, RunPart] | None, *, json: bool,
) -> None:  # fmt: skip
    written = write_trace(connection, runs, output, metrics or None, parts, _calls)
    calls = f", {counted(written.calls, 'call')}" if written.calls else ""
    counts = f"{written.spans} spans{calls} and {written.samples} samples of {counted(written.runs, 'run')}"
    _wrote(
        output, asdict(written), json,
        f"Wrote {counts}; open {escape(shlex.quote(str(output)))} at https://ui.perfetto.dev, which keeps it on this host",
    )  # fmt: skip


def _calls(run: RunInfo) -> list[Call]:
    """Return what profilers recorded of a run, if this host has their reports."""
    from hypergauge.scheduler.profilers.recorded import recorded_calls

    return recorded_calls(Settings.load().home, run.run_id, warn)


def _samples(
    connection: Connection, runs: Sequence[RunInfo], output: Path, metrics: list[str] | None,
    parts: Mapping[str, RunPart] | None, *, json: bool,
) -> None:  # fmt: skip
    from hypergauge.insight.export.samples_file import write_samples

    with Bar("exporting", about=True) as bar:
        # The number of samples in a part is unknown.
        progress = bar if parts is not None else _progress_of(connection, runs, metrics, bar, each=True)
        written = write_samples(connection, runs, output, metrics or None, progress, parts)
    number = len(runs if parts is None else parts)
    _wrote(
        output, {"runs": number, "samples": written}, json,
        f"Wrote {counted(written, 'sample')} of {counted(number, 'run')} to {escape(str(output))}, {_size(output)}",
    )  # fmt: skip


def _tensors(
    connection: Connection, runs: Sequence[RunInfo], output: Path, parts: Mapping[str, RunPart] | None, *, json: bool
) -> None:
    from hypergauge.insight.export.tensors_file import write_tensors
    from hypergauge.sql.queries.tensors import expected_rows

    with Bar("exporting", unit="rows") as bar:
        # The number of steps in a part is unknown.
        total = expected_rows(connection, [run.run_id for run in runs]) if bar.shown and parts is None else None
        written = write_tensors(connection, runs, output, lambda done: bar(done, total), parts)
    number = len(runs if parts is None else parts)
    _wrote(
        output, {"runs": number, "rows": written}, json,
        f"Wrote {counted(written, 'row')} of tensors of {counted(number, 'run')} to {escape(str(output))}, {_size(output)}",
    )  # fmt: skip


def _capsule(connection: Connection, runs: Sequence[RunInfo], output: Path, *, json: bool) -> None:
    from hypergauge.sql.transfer import capsule

    with Bar("exporting", about=True) as bar:
        written = capsule.export(connection, runs, output, _progress_of(connection, runs, None, bar))
    _wrote(
        output, asdict(written), json,
        f"Wrote {counted(written.runs, 'run')} with {counted(written.samples, 'sample')} to {escape(str(output))}, "
        f"{_size(output)}; `bench import` brings them into another database",
    )  # fmt: skip
    if not json:
        _note(written.notes)


def _progress_of(
    connection: Connection, runs: Sequence[RunInfo], metrics: list[str] | None, bar: Bar, *, each: bool = False
) -> Callable[[int], None]:
    """Return a callback that shows the number of samples in `bar`, and their total where the bar is visible."""
    if not bar.shown:
        return bar
    from hypergauge.sql.queries.stream import expected

    total = expected(connection, [run.run_id for run in runs], metrics or None, each=each)
    return lambda done: bar(done, total)


def _wrote(output: Path, content: dict[str, Any], json: bool, line: str) -> None:
    as_json({"file": str(output), **content}) if json else console().print(line)


def _note(notes: Iterable[str]) -> None:
    for line in notes:
        console().print(f"[yellow]![/] {escape(line)}")


def _size(path: Path) -> str:
    return formatting.value_text("_bytes", path.stat().st_size)
