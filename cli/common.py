"""Options, database access and output that commands share."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest
from hypergauge.core.terminal import Terminal
from hypergauge.gpu import Gpu
from hypergauge.sql.server import replica
from hypergauge.sql.server.database import Connection, Database

if TYPE_CHECKING:
    from hypergauge.insight.comparison.entry import Further

__all__ = [
    "Attempts",
    "Json",
    "Selectors",
    "TargetOption",
    "TariffFile",
    "as_json",
    "asking_primary",
    "check_folder",
    "console",
    "every_attempt",
    "further",
    "gpu_words",
    "reading",
    "warn",
]

Json = Annotated[bool, typer.Option("--json", help="Write JSON.")]
Selectors = Annotated[
    list[str] | None,
    typer.Argument(metavar="[SELECTOR]...", help="EXPERIMENT[/WORKLOAD[/RUN]] such as 20/1/3, or a run's id."),
]
Attempts = Annotated[str, typer.Option(help="'all' attempts of each row, or the 'latest'.")]

TariffFile = Annotated[Path | None, typer.Option("--tariff", help="Tariff file: prices of electricity and GPUs.")]
TargetOption = Annotated[
    str | None, typer.Option("--target", help="Time and energy until a software metric reached it: 'accuracy>=0.95'.")
]


def console() -> Terminal:
    """Return the console of standard output; where nobody watches, lines are as long as they need to be."""
    return Terminal(width=None if sys.stdout.isatty() else 200)


@contextlib.contextmanager
def reading(settings: Settings | None = None, measured: Sequence[str] | None = None) -> Iterator[Connection]:
    """Open the database for questions, and say so where it is a replica that is behind.

    With the selectors of what is `measured`, their last figures are waited for, where runs have only just ended.
    """
    settings = settings or Settings.load()
    with Database(settings, reading=True) as database, database.session() as connection:
        if behind := replica.notice(connection):
            warn(behind)
        if measured is not None:
            from hypergauge.insight.freshness import await_figures

            await_figures(connection, settings, measured, warn)
        yield connection


@contextlib.contextmanager
def asking_primary(settings: Settings | None = None) -> Iterator[Connection]:
    """Open the database of ``BENCH_DSN`` for changes, and for questions whose answers must not be those of a while ago."""
    with Database(settings or Settings.load()) as database, database.session() as connection:
        yield connection


def warn(line: str) -> None:
    """Write to standard error what to know of what is written to standard output."""
    Terminal(stderr=True, soft_wrap=True).print(f"[yellow]![/] {escape(line)}")


def further(settings: Settings, target: str | None, *, simulated: bool = False) -> list[Further]:
    """Return what a comparison is to have besides what was measured: costs where there is a tariff, and a target."""
    from hypergauge.insight.cost.cost import costs  # with numpy, as all that compares
    from hypergauge.insight.cost.target import Target, towards
    from hypergauge.insight.cost.tariff import Tariff

    asked: list[Further] = []
    if target is not None:
        asked.append(towards(Target.parse(target), simulated=simulated))
    if settings.tariff is not None:
        asked.append(costs(Tariff.load(settings.tariff), simulated=simulated))
    return asked


def every_attempt(attempts: str) -> bool:
    """Return whether ``--attempts`` asks for all of them."""
    if attempts not in ("latest", "all"):
        raise BadRequest(f"--attempts is 'latest' or 'all', not {attempts!r}")
    return attempts == "all"


def gpu_words(gpu: Gpu) -> str:
    """Return a GPU's name and its MIG instances, and that it is simulated where it is."""
    words = gpu.name
    if gpu.mig_enabled:
        instances = (f"{one.profile} ({one.gpu_instance_id})" for one in gpu.mig)
        words += f", MIG: {' '.join(instances) or 'no instances'}"
    return words + (", simulated" if gpu.simulated else "")


def check_folder(file: Path) -> None:
    """Refuse a file that is to be written where there is no folder, before there is anything to lose."""
    if not file.parent.is_dir():
        raise BadRequest(f"there is no folder {str(file.parent)!r} to write {file.name} to")


def as_json(content: Any, *, line: bool = False) -> None:
    """Write `content` to standard output, as one `line` for whoever reads on; times in ISO 8601."""

    def other(value: Any) -> Any:
        if isinstance(value, datetime):
            return value.isoformat()
        raise TypeError(type(value).__name__)

    json.dump(content, sys.stdout, indent=None if line else 2, default=other)
    sys.stdout.write("\n")
    sys.stdout.flush()
