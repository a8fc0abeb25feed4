"""Command ``plot``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from hypergauge.cli.common import (
    ChartAxis,
    ChartScopes,
    Json,
    PartEnd,
    PartPhase,
    PartStart,
    Selectors,
    as_json,
    check_folder,
    console,
    reading,
    show_notices,
    warn,
)
from hypergauge.cli.help import Commands
from hypergauge.core.errors import BadRequest, did_you_mean
from hypergauge.core.files.run_folder import write_atomically
from hypergauge.insight.part import Part
from hypergauge.sql.runs.selection import select_runs

__all__ = ["inches", "register"]

# Points of a curve, by file suffix: a few inches show no more, but a page has zoom.
_POINTS = {".svg": 300, ".pdf": 300, ".png": 300, ".html": 600}
_KINDS = ("lines", "bars", "scatter", "parallel", "ledger")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)x(\d+(?:\.\d+)?)")
_MOST_INCHES = 100


def register(app: Commands) -> None:
    """Add the command to `app`."""
    app.command(
        examples={
            "bench plot 1 -m cpu_usage -m memory_used -o curves.svg": "a panel for each",
            "bench plot 1 --kind ledger -o ledger.html": "GPUs over real time",
            "bench plot 1/1 -m loss --from 2m -o end.svg": "without the start",
        }
    )(plot)


def plot(
    selectors: Selectors,
    output: Annotated[
        Path,
        typer.Option(
            "-o", "--output", metavar="FILE", help="The file to write: .svg, .pdf, .png, or .html to zoom into."
        ),
    ],
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            "-m",
            "--metric",
            metavar="METRIC",
            help="Quantity of `bench metrics`, software metric such as loss, or metric of tensors such as gradients/*/l2. Can be repeated, for more panels.",
        ),
    ] = None,
    by: Annotated[
        str,
        typer.Option(metavar="run|workload", help="Draw a line for each; that of a workload is the mean of its runs."),
    ] = "run",
    kind: Annotated[
        str,
        typer.Option(
            metavar="KIND",
            help="'lines' over the axis of --align; 'bars' of mean and range; 'scatter' of results against --x; 'parallel' "
            "with an axis for each varied parameter and result; 'ledger' of GPUs over real time.",
        ),
    ] = "lines",
    facet: Annotated[
        str | None, typer.Option(metavar="PARAM", help="Draw a panel for each value of this parameter.")
    ] = None,
    x: Annotated[
        str | None, typer.Option("--x", metavar="PARAM", help="Parameter on the horizontal axis of a scatter.")
    ] = None,
    align: ChartAxis = "time",
    scope: ChartScopes = None,
    start: PartStart = None,
    end: PartEnd = None,
    phase: PartPhase = None,
    style: Annotated[
        str, typer.Option(metavar="STYLE", help="'paper', 'slides', 'dark', a style of matplotlib, or a style file.")
    ] = "paper",
    size: Annotated[
        str | None, typer.Option(metavar="WIDTHxHEIGHT", help="Size of the plot in inches, such as 3.5x2.5.")
    ] = None,
    title: Annotated[str, typer.Option(metavar="TEXT", help="Title of the plot.")] = "",
    notes: Annotated[bool, typer.Option(help="Write notes below the plot, such as missing data.")] = True,
    json: Json = False,
) -> None:
    """Plot runs or workloads over their common time, steps or epochs."""
    suffix = output.suffix.lower()
    if suffix not in _POINTS:
        raise BadRequest(f"a plot is a file that ends in {', '.join(_POINTS)}; {output.name!r} does not")
    part = Part.of(start, end, phase)
    _check_kind(kind, suffix, by, align, scope or part, metrics or ())
    _check_parameters(kind, by, metrics or (), facet, x)
    width_and_height = inches(size)
    check_folder(output)
    looks: dict[str, Any] = {"style": style, "size": width_and_height, "title": title, "notes": notes, "warn": warn}
    if kind == "ledger":
        _ledger(selectors, metrics or (), output, looks, json=json)
        return
    from hypergauge.dashboards.plots.content import read_content  # with numpy: slow to import

    with reading(measured=selectors) as connection:
        runs = select_runs(connection, selectors, every_attempt=kind == "scatter")
        content = read_content(
            connection, runs, metrics or [], kind=kind, by=by, align=align, scopes=scope, facet=facet, x=x,
            points=_POINTS[suffix], part=part,
        )  # fmt: skip
    write_atomically(output, content.drawn(suffix, selectors=selectors, **looks), 0o666)
    if json:
        as_json({"file": str(output), **content.found.as_dict()})
        return
    console().print(f"Wrote {escape(str(output))}")
    show_notices(content.found.notices)


def _check_kind(
    kind: str, suffix: str, by: str, align: str, narrowed: Sequence[str] | Part | None, metrics: Sequence[str]
) -> None:
    if kind not in _KINDS:
        raise BadRequest(
            f"--kind is {', '.join(map(repr, _KINDS[:-1]))} or {_KINDS[-1]!r}, not {kind!r}{did_you_mean(kind, _KINDS)}"
        )
    if kind in ("bars", "scatter", "parallel") and (suffix == ".html" or align != "time"):
        raise BadRequest(f"--kind {kind} has no axis of time: --align and .html go with lines")
    if kind == "ledger" and (by != "run" or align != "time" or narrowed):
        raise BadRequest(
            "a ledger has whole runs over real time: --by, --align, --scope, --from, --to and --phase go with lines and bars"
        )
    if kind != "ledger" and not metrics:
        raise BadRequest("name a metric, such as -m gpu_power; `bench metrics` lists those of your runs")


def _check_parameters(kind: str, by: str, metrics: Sequence[str], facet: str | None, x: str | None) -> None:
    if (kind == "scatter") != (x is not None):
        raise BadRequest("--kind scatter and --x PARAM go together")
    if kind in ("scatter", "parallel") and by != "run":
        raise BadRequest(f"--kind {kind} draws runs: leave out --by")
    if facet is not None and (kind != "lines" or len(metrics) != 1):
        raise BadRequest("--facet goes with lines and one metric")


def _ledger(
    selectors: Sequence[str], metrics: Sequence[str], output: Path, looks: dict[str, Any], *, json: bool
) -> None:
    """Draw the ledger of the GPUs of runs."""
    from hypergauge.dashboards.plots.figure import Looks  # imports matplotlib, a quarter of a second
    from hypergauge.dashboards.plots.ledger.page import ledger_page
    from hypergauge.dashboards.plots.ledger.picture import draw_ledger
    from hypergauge.insight.ledger.ledger import ledger

    with reading(measured=selectors) as connection:
        found = ledger(connection, select_runs(connection, selectors), metrics)
    if output.suffix.lower() == ".html":
        drawn = ledger_page(found, looks["title"] or f"GPUs of {', '.join(selectors)}").encode()
    else:
        drawn = draw_ledger(found, output.suffix.lower(), Looks(**looks))
    write_atomically(output, drawn, 0o666)
    if json:
        as_json({"file": str(output), **found.as_dict()})
        return
    console().print(f"Wrote {escape(str(output))}")
    console().print(escape(found.sentence))
    show_notices(found.notices)


def inches(size: str | None) -> tuple[float, float] | None:
    """Return width and height of ``--size``."""
    if size is None:
        return None
    found = _SIZE.fullmatch(size.strip().lower())
    if found is None or not all(0 < float(side) <= _MOST_INCHES for side in found.groups()):
        raise BadRequest(
            f"--size is WIDTHxHEIGHT in inches, such as 3.5x2.5, and no more than {_MOST_INCHES}; not {size!r}"
        )
    return float(found[1]), float(found[2])
