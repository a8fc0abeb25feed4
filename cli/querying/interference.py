"""Command ``interference``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from hypergauge.cli.common import Json, as_json, check_folder, console, reading, show_notices, warn
from hypergauge.cli.help import Commands
from hypergauge.cli.querying.plot import inches
from hypergauge.core.errors import BadRequest, NoData
from hypergauge.core.files.run_folder import write_atomically
from hypergauge.sql.queries.notices import Notice, notices

if TYPE_CHECKING:
    from hypergauge.insight.sharing.interference import Interference

__all__ = ["register"]

_SUFFIXES = (".svg", ".png", ".pdf")
# Largest number of slowdowns for which the table needs no heat map.
_FEW = 2


def register(app: Commands) -> None:
    """Add the command to `app`."""
    app.command(
        examples={
            "bench interference 1": "runs side by side, against each alone",
            "bench interference 1 -o slowdown.png": "and the slowdowns as a heat map",
        }
    )(interference)


def interference(
    selectors: Annotated[list[str], typer.Argument(metavar="SELECTOR", help="Experiment or workload: 1 or 1/3.")],
    metric: Annotated[
        str, typer.Option(metavar="MEASURE", help="Slowdown of 'duration', 'step_time' or 'epoch_time'.")
    ] = "duration",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Draw a heat map: .svg, .pdf or .png.")
    ] = None,
    simulated: Annotated[bool, typer.Option("--simulated", help="Include energy of simulated GPUs.")] = False,
    style: Annotated[
        str, typer.Option(metavar="STYLE", help="'paper', 'slides', 'dark', a style of matplotlib, or a style file.")
    ] = "paper",
    size: Annotated[
        str | None, typer.Option(metavar="WIDTHxHEIGHT", help="Size of the heat map in inches, such as 3.5x2.5.")
    ] = None,
    title: Annotated[str, typer.Option(metavar="TEXT", help="Title of the heat map.")] = "",
    json: Json = False,
) -> None:
    """Show what collocation cost each configuration, and whether it paid off."""
    if output is not None and output.suffix.lower() not in _SUFFIXES:
        raise BadRequest(f"a heat map is a file that ends in {', '.join(_SUFFIXES)}; {output.name!r} does not")
    if output is not None:
        check_folder(output)
    width_and_height = inches(size)
    # With scipy: slow to import.
    from hypergauge.insight.sharing import collocation

    with reading(measured=selectors) as connection:
        found = collocation.interference(connection, selectors, metric=metric, simulated=simulated)
        facts = collocation.facts(found) if found.sets else map(collocation.left_out, found.left_out)
        shown = notices(connection, facts)
    if not found.sets:
        why = "".join(f"\n{one.text}" for one in shown)
        raise NoData(f"{', '.join(selectors)} has no collocated runs to compare{why}")
    if output is not None:
        _draw(found, output, style, width_and_height, title)
    if json:
        files = {} if output is None else {"file": str(output)}
        more = {"notices": [asdict(one) for one in shown], "advice": collocation.advice(found)}
        as_json({**files, **found.as_dict(), **more})
        return
    _show(found, shown)
    if output is not None:
        console().print(f"Wrote {escape(str(output))}")


def _draw(found: Interference, output: Path, style: str, size: tuple[float, float] | None, title: str) -> None:
    from hypergauge.dashboards.plots.drawings.heatmap import draw_heatmap
    from hypergauge.dashboards.plots.figure import Looks
    from hypergauge.dashboards.terminal import sharing

    if not (grids := sharing.grids(found)):
        raise NoData("there is no slowdown to draw: no collocated configuration also ran alone")
    drawn = draw_heatmap(grids, list(sharing.notes(found)), output.suffix.lower(), Looks(style, size, title, warn=warn))
    write_atomically(output, drawn, 0o666)


def _show(found: Interference, shown: Sequence[Notice]) -> None:
    from hypergauge.dashboards.terminal import sharing
    from hypergauge.dashboards.terminal.notes import distinct
    from hypergauge.insight.sharing import collocation

    out = console()
    for made in sharing.tables_of(found, out.width):
        out.print(made)
    for grid in sharing.grids(found):
        if len(grid.cells) > _FEW:
            out.print(sharing.heatmap(grid))
    show_notices(distinct(shown))
    nothing = "No advice on what to collocate: there is no set whose configurations all did the same work alone."
    out.print(escape(collocation.advice(found) or nothing))
