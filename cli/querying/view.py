"""Commands ``share`` and ``open`` for view files."""

from __future__ import annotations

import os
import shlex
import webbrowser
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
)
from hypergauge.cli.help import Commands
from hypergauge.core.addresses import without_login
from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest
from hypergauge.core.files.run_folder import write_atomically
from hypergauge.sql.queries.charts.charts import software_keys
from hypergauge.sql.queries.summaries import coverage
from hypergauge.sql.runs.selection import select_runs, workload_ids
from hypergauge.sql.server.database import Connection
from hypergauge.stack.services.grafana import grafana_url

if TYPE_CHECKING:
    from hypergauge.insight.charts.chart import Chart
    from hypergauge.insight.charts.view import Found

__all__ = ["register"]

# Variables of sessions in which a browser can open; remote terminals set `BROWSER`.
_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")


def register(app: Commands) -> None:
    """Add the commands to `app`."""
    app.command(
        examples={
            "bench share 1 -m cpu_usage -o view.json": "a chart",
            "bench share 1 -m memory_used -o view.json": "add another one",
        }
    )(share)
    app.command(
        "open",
        examples={
            "bench open view.json": "as a page, in the browser",
            "bench open view.json -o page.html": "only write the page",
        },
    )(open_)


def share(
    selectors: Selectors,
    metrics: Annotated[
        list[str],
        typer.Option(
            "-m",
            "--metric",
            metavar="METRIC",
            help="Quantity of `bench metrics`, software metric such as loss, or metric of tensors such as gradients/*/l2. Can be repeated.",
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "-o", "--output", metavar="FILE", help="The view file, .json. If it exists, the chart is added to it."
        ),
    ],
    by: Annotated[
        str,
        typer.Option(metavar="run|workload", help="Draw a line for each; that of a workload is the mean of its runs."),
    ] = "run",
    align: ChartAxis = "time",
    scope: ChartScopes = None,
    start: PartStart = None,
    end: PartEnd = None,
    phase: PartPhase = None,
    json: Json = False,
) -> None:
    """Write a view file: a selection of runs and metrics, without the data."""
    from hypergauge.insight.charts.chart import chart
    from hypergauge.insight.charts.view import View, ViewChart

    check_folder(output)
    before = View.read(output).charts if output.exists() else ()
    with reading(measured=selectors) as connection:
        runs = select_runs(connection, selectors)
        added = ViewChart.of(
            connection, runs, metrics, by=by, align=align, scopes=tuple(scope or ()),
            from_=start or "", to=end or "", phase=phase or "",
        )  # fmt: skip
        # Refuse a selection without data now, and not when the view is opened.
        chart(connection, runs, added.metrics, by=by, align=align, scopes=scope or None, points=2, part=added.part)
    view = View((*before, *(() if added in before else (added,))))
    view.write(output)
    if json:
        as_json({"file": str(output), "charts": [one.as_dict() for one in view.charts], "added": added not in before})
        return
    name = escape(shlex.quote(str(output)))
    what = f"{_count(added.metrics, 'metric')} of {_count(runs, 'run')}"
    if added in before:
        console().print(f"{name} has this chart already, and is unchanged")
    elif before:
        console().print(f"Added a chart to {name}, {what}: it has {len(view.charts)} now")
    else:
        console().print(f"Wrote a chart to {name}, {what}; `bench open {name}` shows it")


def open_(
    view: Annotated[Path, typer.Argument(metavar="VIEW.json", help="A file of `bench share`.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="Write the page to this file, .html, and do not open the browser."
        ),
    ] = None,
    grafana: Annotated[
        bool, typer.Option("--grafana", help="Open the same charts in Grafana, instead of a page.")
    ] = False,
    json: Json = False,
) -> None:
    """Open a view file in the browser, with the current data."""
    from hypergauge.dashboards.terminal.notes import distinct
    from hypergauge.insight.charts.view import View

    settings = Settings.load()
    if grafana and output is not None:
        raise BadRequest("--grafana writes no page: leave out --grafana or -o")
    chosen = View.read(view)
    page = output or view.with_suffix(".html")
    if page.suffix.lower() not in (".html", ".htm"):
        raise BadRequest(f"a page is a file that ends in .html; {page.name!r} does not")
    check_folder(page)
    with reading(settings) as connection:
        found = chosen.find(connection)
        if grafana:
            _show_link(without_login(grafana_url(settings)) + _link(connection, found, view), found, json=json)
            return
        charts, missing = found.draw(connection, view)
    if json:
        content = [{**one.as_dict(), **drawn.as_dict(points=True)} for one, drawn in charts]
        as_json({"deleted": found.deleted, "missing": missing, "charts": content})
        return
    notes = [*_deleted(found), *missing]
    write_atomically(page, _page([drawn for _, drawn in charts], view.stem, "; ".join(notes)), 0o666)
    _warn(notes)
    show_notices(distinct(one for _, drawn in charts for one in drawn.notices))
    shown = output is None and _opened(page.resolve().as_uri())
    console().print(f"Wrote {_count(charts, 'chart')} to {escape(shlex.quote(str(page)))}{', and opened it' * shown}")


def _show_link(url: str, found: Found, *, json: bool) -> None:
    if json:
        as_json({"deleted": found.deleted, "url": url})
        return
    _warn(_deleted(found))
    console().print(escape(url), soft_wrap=True)
    _opened(url)


def _link(connection: Connection, found: Found, file: Path) -> str:
    from hypergauge.dashboards.grafana.links import view_link
    from hypergauge.dashboards.grafana.views import check_drawn, check_whole

    check_whole(found.view.charts)
    ids = list(found.runs)
    logged = set(software_keys(connection, ids))
    check_drawn(connection, found.view.charts, ids, [*logged, *(one.quantity for one in coverage(connection, ids))])
    try:
        return view_link(found, workload_ids(connection, ids), logged)
    except BadRequest as error:
        name = shlex.quote(str(file))
        raise BadRequest(
            f"{error}; `bench dashboards push {name}` makes a dashboard of this view", file=file
        ) from error


def _deleted(found: Found) -> list[str]:
    return [f"deleted runs: {', '.join(found.deleted)}"] if found.deleted else []


def _warn(lines: Iterable[str]) -> None:
    for line in lines:
        console().print(f"[yellow]![/] {escape(line)}")


def _page(charts: Iterable[Chart], title: str, footer: str) -> bytes:
    from hypergauge.dashboards.plots.page import page
    from hypergauge.dashboards.plots.panels import lay_out

    return page([lay_out(one) for one in charts], title, footer).encode()


def _opened(url: str) -> bool:
    """Open a page in the browser, if there is a display; return whether it opened."""
    return console().is_terminal and any(map(os.environ.get, _DISPLAYS)) and webbrowser.open(url)


def _count(some: Sequence[object], what: str) -> str:
    return f"{len(some)} {what}{'s'[: len(some) != 1]}"
