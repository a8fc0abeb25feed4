"""Options, database access and output that commands share."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest
from hypergauge.core.terminal import Terminal
from hypergauge.sql.server import replica
from hypergauge.sql.server.database import Connection, Database

if TYPE_CHECKING:
    from hypergauge.sql.queries.notices import Notice

__all__ = [
    "SELECTOR",
    "Attempts",
    "ChartAxis",
    "ChartScopes",
    "Json",
    "PartEnd",
    "PartPhase",
    "PartStart",
    "Run",
    "Selectors",
    "SomeSelectors",
    "TargetOption",
    "TariffFile",
    "as_json",
    "check_folder",
    "console",
    "every_attempt",
    "primary",
    "reading",
    "show_notices",
    "warn",
]

Json = Annotated[bool, typer.Option("--json", help="Write JSON.")]
SELECTOR = "Experiment, workload or run: 1, 1/3 or 1/3/2, or a run's id."
Selectors = Annotated[list[str], typer.Argument(metavar="SELECTOR", help=SELECTOR)]
SomeSelectors = Annotated[list[str] | None, typer.Argument(metavar="SELECTOR", help=f"{SELECTOR} By default all.")]
Run = Annotated[str, typer.Argument(metavar="RUN", help="Run: 1/3/2, or its id.")]
Attempts = Annotated[
    str, typer.Option(metavar="latest|all", help="Of each row only the latest attempt, or all attempts.")
]

ChartAxis = Annotated[
    str,
    typer.Option(
        "--align", metavar="AXIS", help="Common axis of the runs: 'time', 'step', 'epoch', 'phase' or 'phase:NAME'."
    ),
]
ChartScopes = Annotated[
    list[str] | None,
    typer.Option(
        "--scope", metavar="SCOPE", help="'process', 'instance', 'device' or 'host'; by default the narrowest."
    ),
]
PartStart = Annotated[
    str | None, typer.Option("--from", metavar="TIME", help="Only from this time in each run on: 60, 90s, 2m.")
]
PartEnd = Annotated[str | None, typer.Option("--to", metavar="TIME", help="Only to this time in each run.")]
PartPhase = Annotated[
    str | None, typer.Option("--phase", metavar="NAME", help="Only the phase of this name, with all of its spans.")
]
TariffFile = Annotated[
    Path | None, typer.Option("--tariff", metavar="FILE", help="Show costs, by this tariff file of prices.")
]
TargetOption = Annotated[
    str | None,
    typer.Option(
        "--target", metavar="CONDITION", help="Show time and energy until a software metric met this: 'accuracy>=0.95'."
    ),
]


def console(width: int | None = None) -> Terminal:
    """Return the console of standard output, with the terminal's width, else ``COLUMNS``, else 200 characters."""
    known = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()
    return Terminal(width=width or (None if known else 200))


@contextlib.contextmanager
def reading(settings: Settings | None = None, measured: Sequence[str] | None = None) -> Iterator[Connection]:
    """Open the database for reading, and warn if it is a replica that lags behind.

    With the selectors of `measured` runs, wait for the last samples of those that have just ended.
    """
    settings = settings or Settings.load()
    with Database(settings, reading=True) as database, database.session() as connection:
        if behind := replica.notice(connection):
            warn(behind)
        if measured is not None:
            from hypergauge.insight.freshness import await_values

            await_values(connection, settings, measured, warn)
        yield connection


@contextlib.contextmanager
def primary(settings: Settings | None = None) -> Iterator[Connection]:
    """Open the database of ``BENCH_DSN``, for writes and for reads that a lagging replica must not answer."""
    with Database(settings or Settings.load()) as database, database.session() as connection:
        yield connection


def warn(line: str) -> None:
    """Write a warning to standard error."""
    Terminal(stderr=True, soft_wrap=True).print(f"[yellow]![/] {escape(line)}")


def show_notices(notices: Iterable[Notice]) -> None:
    """Write notices to standard output, one per line."""
    for one in notices:
        console().print(f"{'[yellow]![/]' if one.severity == 'warning' else '[blue]i[/]'} {escape(one.text)}")


def every_attempt(attempts: str) -> bool:
    """Return whether ``--attempts`` is ``all``."""
    if attempts not in ("latest", "all"):
        raise BadRequest(f"--attempts is 'latest' or 'all', not {attempts!r}")
    return attempts == "all"


def check_folder(file: Path) -> None:
    """Refuse an output file whose folder does not exist, before the command computes its content."""
    if not file.parent.is_dir():
        raise BadRequest(f"there is no folder {str(file.parent)!r} to write {file.name} to")


def as_json(content: Any, *, line: bool = False) -> None:
    """Write `content` as JSON to standard output, on one `line` for streams; times are in ISO 8601."""

    def other(value: Any) -> Any:
        if isinstance(value, datetime):
            return value.isoformat()
        raise TypeError(type(value).__name__)

    json.dump(content, sys.stdout, indent=None if line else 2, default=other)
    sys.stdout.write("\n")
    sys.stdout.flush()
