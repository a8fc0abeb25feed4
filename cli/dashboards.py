"""Commands ``dashboards …``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from hypergauge.cli.common import Json, as_json, console, reading, warn
from hypergauge.cli.help import Commands
from hypergauge.core.addresses import without_login
from hypergauge.core.config.settings import Settings, secret
from hypergauge.dashboards.grafana import files
from hypergauge.dashboards.grafana.boards import BOARDS, board
from hypergauge.dashboards.grafana.choices import with_mlflow
from hypergauge.dashboards.grafana.push import FOLDER, Grafana
from hypergauge.dashboards.grafana.queries import Json as Dashboard
from hypergauge.stack.services.grafana import grafana_url

__all__ = ["register"]

app = Commands(
    help="Grafana dashboards: build, check, push.",
    no_args_is_help=True,
    examples={"bench dashboards push": "into the local stack's Grafana"},
)

Folder = Annotated[
    Path,
    typer.Option(
        "-o", "--folder", metavar="FOLDER", help="Folder of the files; by default in the package.", show_default=False
    ),
]


def register(commands: Commands) -> None:
    """Add the commands to `commands`."""
    commands.add_typer(app, name="dashboards")


@app.command(examples={"bench dashboards build -o dashboards": "files for your own Grafana"})
def build(folder: Folder = files.FOLDER) -> None:
    """Write the dashboards' files, for provisioning in Grafana."""
    changed = files.write(folder)
    for path in changed:
        console().print(f"[green]{'wrote' if path.is_file() else 'removed'}[/] {escape(str(path))}")
    if not changed:
        console().print(f"the files of {len(BOARDS)} dashboards in {escape(str(folder))} are up to date")


@app.command(examples={"bench dashboards check -o dashboards": "after an upgrade"})
def check(folder: Folder = files.FOLDER, json: Json = False) -> None:
    """Check that the files are up to date, and that every panel is valid."""
    found = list(files.differences(folder))
    if json:
        as_json({"dashboards": list(BOARDS), "differences": found})
    else:
        for line in found:
            console().print(f"[red]✗[/] {escape(line)}")
        if not found:
            console().print(f"{len(BOARDS)} dashboards are up to date")
    raise typer.Exit(1 if found else 0)


@app.command(
    examples={
        "bench dashboards push": "to the local stack's Grafana",
        "bench dashboards push view.json": "a view as a dashboard",
    }
)
def push(
    views: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="VIEW.json",
            help="Files of `bench share`, each as a dashboard; by default all dashboards of hypergauge.",
        ),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Grafana's address; by default BENCH_GRAFANA_URL, or the local stack's."),
    ] = None,
    json: Json = False,
) -> None:
    """Push dashboards to a Grafana.

    Makes their folder, creates or replaces them, and checks the data source.
    """
    settings = Settings.load(grafana_url=url)
    dashboards = _of_views(settings, views) if views else [board(uid) for uid in BOARDS]
    if (settings.tracking_uri or "").startswith("http"):
        dashboards = [with_mlflow(one, without_login(str(settings.tracking_uri))) for one in dashboards]
    grafana = Grafana(grafana_url(settings, login=True), secret("BENCH_GRAFANA_TOKEN"))
    made_folder = grafana.make_folder()
    faults = list(grafana.source_faults())
    pushed = grafana.push(dashboards)
    if json:
        done = [asdict(one) for one in pushed]
        as_json(
            {
                "grafana": grafana.url,
                "version": grafana.version,
                "folder": FOLDER,
                "dashboards": done,
                "warnings": faults,
            }
        )
        return
    out = console()
    out.print(
        f"Grafana {escape(grafana.version)} at {escape(grafana.url)}"
        + (f": made the folder {FOLDER}" if made_folder else "")
    )
    for one in pushed:
        outcome = "not replaced: Grafana provisions it from a file" if one.done == "provisioned" else one.done
        out.print(f"[green]✓[/] {escape(one.title)} {outcome}: {escape(one.url)}", soft_wrap=True)
    for fault in faults:
        warn(fault)


def _of_views(settings: Settings, paths: list[Path]) -> list[Dashboard]:
    from hypergauge.dashboards.grafana.views import from_view  # with numpy: slow to import
    from hypergauge.insight.charts.view import View

    # Read first, so that a bad file is refused before a database starts.
    views = [(path.stem, View.read(path)) for path in paths]
    with reading(settings) as connection:
        return [from_view(connection, view.find(connection), name) for name, view in views]
