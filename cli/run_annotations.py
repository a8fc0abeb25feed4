"""Commands ``note``, ``keep`` and ``rm``."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer
from rich.markup import escape

from hypergauge.cli.common import Attempts, Json, Run, Selectors, as_json, console, every_attempt, primary
from hypergauge.cli.help import Commands
from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest
from hypergauge.core.listing import counted
from hypergauge.dashboards.terminal import tables
from hypergauge.sql.runs import run_annotations
from hypergauge.sql.runs.selection import RunInfo, select_run, select_runs
from hypergauge.stack.removal import remove as remove_everywhere

__all__ = ["register"]


def register(app: Commands) -> None:
    """Add the commands to `app`."""
    app.command(
        examples={
            "bench note 1/3/2 'warm GPU, repeat'": "add a note",
            "bench note 1/3/2": "show it",
        }
    )(note)
    app.command(
        examples={
            "bench keep 1/3": "protect all runs of a workload",
            "bench keep 1/3 --undo": "remove the protection",
        }
    )(keep)
    app.command(
        examples={
            "bench rm 1/3/2 --dry-run": "show what would be removed",
            "bench rm 1/3/2": "remove it, after a confirmation",
        }
    )(rm)


def note(
    run: Run,
    text: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT", help="The note; without a text, the command shows the note.")
    ] = None,
    append: Annotated[bool, typer.Option("--append", help="Add a paragraph to the note.")] = False,
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace an existing note.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the note.")] = False,
    json: Json = False,
) -> None:
    """Add a note to a run, or show it."""
    content = " ".join(text) if text else None
    _check_options(run, content, {"--append": append, "--force": force, "--remove": remove})
    with primary() as connection:
        chosen = select_run(connection, run)
        shown = chosen.note
        if content is not None:
            shown = run_annotations.add_note(connection, chosen, content, append=append, replace=force)
        elif remove:
            shown = None
            run_annotations.note(connection, chosen.run_id, shown)
    if json:
        as_json({"run": chosen.full_label, "run_id": chosen.run_id, "note": shown})
    else:
        console().print(escape(shown or f"{chosen.full_label} has no note"))


def keep(
    selectors: Selectors,
    undo: Annotated[bool, typer.Option("--undo", help="Remove the protection.")] = False,
    attempts: Attempts = "latest",
    json: Json = False,
) -> None:
    """Protect runs from retention and from `bench rm`."""
    with primary() as connection:
        runs = select_runs(connection, selectors, every_attempt=every_attempt(attempts))
        run_annotations.keep(connection, [run.run_id for run in runs], not undo)
    if json:
        as_json([{"run": run.full_label, "run_id": run.run_id, "keep": not undo} for run in runs])
    else:
        console().print(
            f"{', '.join(run.full_label for run in runs)}: {'no longer protected' if undo else 'protected'}"
        )


def rm(
    selectors: Selectors,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be removed, and remove nothing.")] = False,
    others: Annotated[bool, typer.Option("--others", help="Include other users' runs.")] = False,
    attempts: Attempts = "latest",
    json: Json = False,
) -> None:
    """Remove runs with their samples, their output and their MLflow runs."""
    settings = Settings.load()
    with primary(settings) as connection:
        runs = select_runs(connection, selectors, every_attempt=every_attempt(attempts))
        run_annotations.check_may_remove(connection)
        run_annotations.check_removable(runs, getpass.getuser(), others=others)
        if not json:
            console().print(tables.runs(runs, console().width))
        if not (yes or dry_run):
            _confirm(runs, json=json)
        samples = 0 if dry_run else remove_everywhere(connection, settings, runs, _notify)
    if json:
        removed = [{"run": run.full_label, "run_id": run.run_id} for run in runs]
        as_json({"removed": not dry_run, "runs": removed, "samples": None if dry_run else samples})
    elif not dry_run:
        console().print(f"Removed {counted(len(runs), 'run')} with {counted(samples, 'sample')}")


def _check_options(run: str, content: str | None, options: Mapping[str, bool]) -> None:
    """Refuse options of ``note`` that contradict each other or the text."""
    chosen = [name for name, given in options.items() if given]
    if len(chosen) > 1:
        raise BadRequest(f"{' and '.join(chosen)} exclude each other")
    if content is None and chosen and chosen != ["--remove"]:
        raise BadRequest(f"the text is missing: bench note {run} {chosen[0]} 'TEXT'")
    if content is not None and chosen == ["--remove"]:
        raise BadRequest(f"--remove takes no text: bench note {run} --remove")
    if content is not None and not content.strip():
        raise BadRequest("the note is empty; --remove removes one")


def _confirm(runs: Sequence[RunInfo], *, json: bool) -> None:
    if json or not sys.stdin.isatty():
        raise BadRequest("there is no terminal to confirm on: --yes removes them, --dry-run only shows them")
    typer.confirm(f"Remove {counted(len(runs), 'run')} with samples, output and artifacts for good?", abort=True)


def _notify(line: str) -> None:
    typer.echo(line, err=True)
