"""The command ``plot``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from bench.cli.common import Json, as_json, check_folder, console, reading
from bench.errors import BadRequest
from bench.runfolder import write_atomically
from sql.selection import select_runs

if TYPE_CHECKING:
    from insight.chart import Chart

__all__ = ["register"]

# By ending, how many points a curve has: more are not seen in a few inches, but in a page one can zoom.
_POINTS = {".svg": 300, ".pdf": 300, ".png": 300, ".html": 600}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)x(\d+(?:\.\d+)?)")
_MOST_INCHES = 100


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command()(plot)


def plot(
    selectors: Annotated[list[str], typer.Argument(metavar="SELECTOR...", help="Experiments, workloads or runs.")],
    metrics: Annotated[
        list[str], typer.Option("-m", "--metric", help="A quantity, or a software metric such as loss: a panel each.")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The file: .svg, .pdf, .png, or .html to zoom into.")],
    by: Annotated[str, typer.Option(help="A curve for each 'run', or each 'workload': the mean of its runs.")] = "run",
    align: Annotated[
        str, typer.Option(help="What runs have in common: 'time', 'step', 'epoch', 'phase' or 'phase:NAME'.")
    ] = "time",
    scope: Annotated[
        list[str] | None, typer.Option(help="process, instance, device or host; by default the narrowest.")
    ] = None,
    style: Annotated[
        str, typer.Option(help="'paper', 'slides', 'dark', a style of matplotlib's, or a file in its form.")
    ] = "paper",
    size: Annotated[str | None, typer.Option(metavar="WIDTHxHEIGHT", help="In inches, such as 3.5x2.5.")] = None,
    title: Annotated[str, typer.Option(help="What stands above it.")] = "",
    notes: Annotated[bool, typer.Option(help="Whether what has to be said of the figures stands below them.")] = True,
    json: Json = False,
) -> None:
    """Draw what runs, or workloads, did over the time, steps or epochs that they have in common."""
    ending = output.suffix.lower()
    if ending not in _POINTS:
        raise BadRequest(f"a plot is a file that ends in {', '.join(_POINTS)}; {output.name!r} does not")
    inches = _inches(size)
    check_folder(output)
    from insight.chart import chart  # with numpy, which other commands do without

    with reading() as connection:
        found = chart(
            connection, select_runs(connection, selectors), metrics,
            by=by, align=align, scopes=scope or None, points=_POINTS[ending],
        )  # fmt: skip
    title = title or ("" if ending != ".html" else f"{', '.join(found.metrics)} of {', '.join(selectors)}")
    write_atomically(output, _drawn(found, ending, style, inches, title, notes), 0o666)
    if json:
        as_json({"file": str(output), **_said(found)})
        return
    counts = f"{len(found.series)} curve{'s'[: len(found.series) != 1]}"
    console().print(f"Wrote {counts} to {escape(str(output))}")
    for note in found.notes:
        console().print(f"[yellow]![/] {escape(note)}")


def _drawn(found: Chart, ending: str, style: str, size: tuple[float, float] | None, title: str, notes: bool) -> bytes:
    from dashboards.plots.panels import lay_out

    layout = lay_out(found)
    if ending == ".html":
        from dashboards.plots.page import page

        return page([layout], title).encode()
    from dashboards.plots.figure import draw  # with matplotlib, a quarter of a second

    return draw(layout, ending, style=style, size=size, title=title, notes=notes)


def _inches(size: str | None) -> tuple[float, float] | None:
    if size is None:
        return None
    found = _SIZE.fullmatch(size.strip().lower())
    if found is None or not all(0 < float(side) <= _MOST_INCHES for side in found.groups()):
        raise BadRequest(
            f"--size is WIDTHxHEIGHT in inches, such as 3.5x2.5, and no more than {_MOST_INCHES}; not {size!r}"
        )
    return float(found[1]), float(found[2])


def _said(found: Chart) -> dict[str, Any]:
    """Return what there is to know of a chart besides its points."""
    return {
        "by": found.by,
        "align": found.align,
        "series": [
            {
                "label": one.label, "runs": one.runs, "metric": one.metric, "unit": one.unit, "scope": one.scope,
                "points": len(one.x), "simulated": one.simulated, "profiled": one.profiled,
            }
            for one in found.series
        ],
        "left_out": found.left_out,
        "notes": found.notes,
    }  # fmt: skip
