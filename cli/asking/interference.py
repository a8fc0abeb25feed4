"""The command ``interference``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from hypergauge.cli.asking.plot import inches
from hypergauge.cli.common import Json, as_json, check_folder, console, reading
from hypergauge.core.errors import BadRequest, NoData
from hypergauge.core.files.run_folder import write_atomically

if TYPE_CHECKING:
    from hypergauge.insight.sharing.interference import Interference

__all__ = ["register"]

_ENDINGS = (".svg", ".png", ".pdf")
# As many slowdowns are seen in the table.
_FEW = 2


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command()(interference)


def interference(
    selectors: Annotated[list[str], typer.Argument(metavar="SELECTOR...", help="Experiments, or workloads of them.")],
    metric: Annotated[str, typer.Option(help="What is slower: 'duration', 'step_time' or 'epoch_time'.")] = "duration",
    output: Annotated[Path | None, typer.Option("-o", "--output", help="A heat map: .svg, .pdf, .png.")] = None,
    simulated: Annotated[bool, typer.Option("--simulated", help="Energy of simulated GPUs as well.")] = False,
    style: Annotated[
        str, typer.Option(help="'paper', 'slides', 'dark', a style of matplotlib's, or a file in its form.")
    ] = "paper",
    size: Annotated[str | None, typer.Option(metavar="WIDTHxHEIGHT", help="In inches, such as 3.5x2.5.")] = None,
    title: Annotated[str, typer.Option(help="Title of the heat map.")] = "",
    json: Json = False,
) -> None:
    """Show what collocation cost each configuration, and whether it paid off."""
    if output is not None and output.suffix.lower() not in _ENDINGS:
        raise BadRequest(f"a heat map is a file that ends in {', '.join(_ENDINGS)}; {output.name!r} does not")
    if output is not None:
        check_folder(output)
    width_and_height = inches(size)
    # With scipy, which other commands do without.
    from hypergauge.insight.sharing import collocation

    with reading(measured=selectors) as connection:
        found = collocation.interference(connection, selectors, metric=metric, simulated=simulated)
    if not found.sets:
        why = "".join(f"\n{collocation.left_out(one)}" for one in found.left_out)
        raise NoData(f"nothing was collocated in {', '.join(selectors)} that can be judged{why}")
    if output is not None:
        _draw(found, output, style, width_and_height, title)
    if json:
        files = {} if output is None else {"file": str(output)}
        words = {"remarks": list(collocation.remarks(found)), "advice": collocation.advice(found)}
        as_json({**files, **found.as_dict(), **words})
        return
    _show(found)
    if output is not None:
        console().print(f"Wrote {escape(str(output))}")


def _draw(found: Interference, output: Path, style: str, size: tuple[float, float] | None, title: str) -> None:
    from hypergauge.dashboards.plots.figure import Looks
    from hypergauge.dashboards.plots.heatmap import draw_heatmap
    from hypergauge.dashboards.terminal import sharing

    if not (grids := sharing.grids(found)):
        raise NoData("there is no slowdown to draw: no configuration that was collocated was also there alone")
    drawn = draw_heatmap(grids, list(sharing.notes(found)), output.suffix.lower(), Looks(style, size, title))
    write_atomically(output, drawn, 0o666)


def _show(found: Interference) -> None:
    from hypergauge.dashboards.terminal import sharing
    from hypergauge.insight.sharing import collocation

    out = console()
    for made in sharing.tables_of(found):
        out.print(made)
    for grid in sharing.grids(found):
        if len(grid.cells) > _FEW:
            out.print(sharing.heatmap(grid))
    for line in collocation.remarks(found):
        out.print(f"[yellow]![/] {escape(line)}")
    nothing = "Nothing can be said of what to collocate: no set has each of its configurations alone as well."
    out.print(escape(collocation.advice(found) or nothing))
