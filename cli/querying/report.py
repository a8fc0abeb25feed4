"""Command ``report``."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from hypergauge.cli.common import (
    Json,
    PartEnd,
    PartPhase,
    PartStart,
    Selectors,
    TargetOption,
    TariffFile,
    as_json,
    check_folder,
    console,
    reading,
)
from hypergauge.cli.help import Commands
from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest
from hypergauge.core.files.run_folder import write_atomically
from hypergauge.core.services import Stack
from hypergauge.insight.part import Part

__all__ = ["register"]


def register(app: Commands) -> None:
    """Add the command to `app`."""
    app.command(
        examples={
            "bench report 1 -o report.html": "a page to open or send",
            "bench report 1 2 -o report.html --baseline 1/1/1": "differences to a run",
            "bench report 1 -o train.html --phase train": "only a phase",
        }
    )(report)


def report(
    selectors: Selectors,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The file to write: .html.")],
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            "-m", "--metric", metavar="QUANTITY", help="Quantity to plot; by default the usual ones. Can be repeated."
        ),
    ] = None,
    baseline: Annotated[str | None, typer.Option(metavar="RUN", help="Show differences to this run.")] = None,
    title: Annotated[str, typer.Option(metavar="TEXT", help="Title of the page.")] = "",
    tariff: TariffFile = None,
    target: TargetOption = None,
    start: PartStart = None,
    end: PartEnd = None,
    phase: PartPhase = None,
    json: Json = False,
) -> None:
    """Write a report on runs as one page: comparison, curves, phases, environment."""
    part = Part.of(start, end, phase)
    if output.suffix.lower() not in (".html", ".htm"):
        raise BadRequest(f"a report is a file that ends in .html; {output.name!r} does not")
    if part and (tariff or target):
        raise BadRequest("costs and targets are of whole runs: leave out --tariff and --target")
    check_folder(output)
    # With numpy and psutil: slow to import.
    from hypergauge.dashboards.report.report import render
    from hypergauge.insight.cost.further import further
    from hypergauge.insight.report import report as whole
    from hypergauge.scheduler.tracking.manifests import manifests_of

    settings = Settings.load(tariff=tariff)
    more = [] if part else further(settings, target)
    with reading(settings, selectors) as connection:
        found = whole(connection, selectors, metrics or (), baseline=baseline, further=more, part=part)
    local = Stack(settings).recorded().get("mlflow")
    manifests = manifests_of(settings.home, settings.tracking_uri or (local.url if local else None), found.runs)
    title = title or " and ".join(f"{one.experiment_id} {one.name}".rstrip() for one in found.experiments)
    page = render(found, manifests, title, datetime.now(UTC).astimezone())
    write_atomically(output, page, 0o666)
    if json:
        as_json({"file": str(output), "runs": [run.label for run in found.runs], "manifests": len(manifests)})
    else:
        console().print(f"Wrote {escape(str(output))}; open it in a browser")
