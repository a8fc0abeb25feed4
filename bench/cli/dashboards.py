"""Grafana's dashboards: ``bench dashboards …``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from bench.cli.common import Json, as_json, console
from dashboards.grafana import files
from dashboards.grafana.boards import BOARDS

__all__ = ["app"]

app = typer.Typer(help="Grafana's dashboards: their files, and how they get there.", no_args_is_help=True)

Folder = Annotated[Path, typer.Option("-o", "--folder", help="Where the files are; by default in the package itself.")]


@app.command()
def build(folder: Folder = files.FOLDER) -> None:
    """Write the dashboards' files, which Grafana can be provisioned with."""
    changed = files.write(folder)
    for path in changed:
        console().print(f"[green]{'wrote' if path.is_file() else 'removed'}[/] {escape(str(path))}")
    if not changed:
        console().print(f"the files of {len(BOARDS)} dashboards in {escape(str(folder))} are as they should be")


@app.command()
def check(folder: Folder = files.FOLDER, json: Json = False) -> None:
    """Check that the files are what the code yields, and that every panel is valid."""
    found = list(files.differences(folder))
    if json:
        as_json({"dashboards": list(BOARDS), "differences": found})
    else:
        for line in found:
            console().print(f"[red]✗[/] {escape(line)}")
        if not found:
            console().print(f"{len(BOARDS)} dashboards are as they should be")
    raise typer.Exit(1 if found else 0)
