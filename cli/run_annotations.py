"""The commands ``note``, ``keep`` and ``rm``."""

from __future__ import annotations

import contextlib
import getpass
import shutil
import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.markup import escape

from hypergauge.cli.common import Attempts, Json, as_json, asking_primary, console, every_attempt
from hypergauge.cli.serving.stack import local_stack, own_tracking_server
from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest
from hypergauge.core.files.run_folder import RunFolder
from hypergauge.dashboards.terminal import tables
from hypergauge.sql.runs import run_annotations
from hypergauge.sql.runs.selection import RunInfo, select_run, select_runs

__all__ = ["register"]

Chosen = Annotated[list[str], typer.Argument(metavar="SELECTOR...", help="Such as 20/1/3, or a run's id.")]


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command()(note)
    app.command()(keep)
    app.command()(rm)


def note(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run.")],
    words: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT", help="What to note; without it the note is shown.")
    ] = None,
    append: Annotated[bool, typer.Option("--append", help="Add a paragraph to the note that is there.")] = False,
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace the note that is there.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Take the note away.")] = False,
    json: Json = False,
) -> None:
    """Add a note to a run, or show it."""
    text = " ".join(words) if words else None
    chosen_options = [name for name, given in (("--append", append), ("--force", force), ("--remove", remove)) if given]
    if len(chosen_options) > 1:
        raise BadRequest(f"{' and '.join(chosen_options)} exclude each other")
    if text is None and (append or force):
        raise BadRequest(f"the text is missing: bench note {run} {chosen_options[0]} 'what to note'")
    if text is not None and remove:
        raise BadRequest(f"--remove takes the note away and needs no text: bench note {run} --remove")
    if text is not None and not text.strip():
        raise BadRequest("the note is empty; --remove takes one away")
    with asking_primary() as connection:
        chosen = select_run(connection, run)
        wanted = chosen.note
        if remove:
            wanted = None
        elif text is not None:
            if chosen.note and not (append or force):
                raise BadRequest(f"{chosen.label} has a note: --append adds to it, --force replaces it")
            wanted = f"{chosen.note}\n\n{text}" if append and chosen.note else text
        if wanted != chosen.note:
            run_annotations.note(connection, chosen.run_id, wanted)
    if json:
        as_json({"run": chosen.full_label, "run_id": chosen.run_id, "note": wanted})
    else:
        console().print(escape(wanted or f"{chosen.full_label} has no note"))


def keep(
    selectors: Chosen,
    undo: Annotated[bool, typer.Option("--undo", help="Remove the protection.")] = False,
    attempts: Attempts = "latest",
    json: Json = False,
) -> None:
    """Protect runs from retention and from `bench rm`."""
    with asking_primary() as connection:
        runs = select_runs(connection, selectors, every_attempt=every_attempt(attempts))
        run_annotations.keep(connection, [run.run_id for run in runs], not undo)
    if json:
        as_json([{"run": run.full_label, "run_id": run.run_id, "keep": not undo} for run in runs])
    else:
        console().print(f"{', '.join(run.full_label for run in runs)}: {'no longer kept' if undo else 'kept'}")


def rm(
    selectors: Chosen,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be removed.")] = False,
    others: Annotated[bool, typer.Option("--others", help="Include other users' runs.")] = False,
    attempts: Attempts = "latest",
    json: Json = False,
) -> None:
    """Remove runs with their samples, their output and their MLflow runs."""
    settings = Settings.load()
    with asking_primary(settings) as connection:
        runs = select_runs(connection, selectors, every_attempt=every_attempt(attempts))
        run_annotations.check_may_remove(connection)
        _check_removable(runs, others)
        if not json:
            console().print(tables.runs(runs))
        samples = 0
        if not dry_run:
            if not yes:
                _ask(runs, asked_for_json=json)
            _remove_from_tracking(settings, runs)
            samples = run_annotations.remove_runs(connection, [run.run_id for run in runs])
            for run in runs:
                if folder := RunFolder.find(settings.home, run.run_id):
                    shutil.rmtree(folder.path, ignore_errors=True)
    if json:
        removed = [{"run": run.full_label, "run_id": run.run_id} for run in runs]
        as_json({"removed": not dry_run, "runs": removed, "samples": None if dry_run else samples})
    elif not dry_run:
        console().print(f"Removed {_counted(len(runs), 'run')} with {_counted(samples, 'sample')}")


def _check_removable(runs: Sequence[RunInfo], others: bool) -> None:
    """Refuse all where one may not go."""
    me = getpass.getuser()
    refused = [
        ("of somebody else; --others removes them too", [run for run in runs if run.owner != me and not others]),
        ("still to end; `bench stop` ends them", [run for run in runs if run.status in ("pending", "running")]),
        ("kept; `bench keep --undo` gives them free", [run for run in runs if run.keep]),
    ]
    for why, which in refused:
        if which:
            names = ", ".join(f"{run.full_label} ({run.owner})" for run in which[:6])
            raise BadRequest(f"{names}{' …' * (len(which) > 6)}: {why}; nothing was removed")


def _ask(runs: Sequence[RunInfo], *, asked_for_json: bool) -> None:
    if asked_for_json or not sys.stdin.isatty():
        raise BadRequest("nobody is here to be asked: --yes removes them, --dry-run only shows them")
    typer.confirm(f"Remove {_counted(len(runs), 'run')} with samples, output and artifacts for good?", abort=True)


def _remove_from_tracking(settings: Settings, runs: Sequence[RunInfo]) -> None:
    """Remove what MLflow has of runs, first of all: what it refuses is still on record here."""
    if not any(run.mlflow_run_id for run in runs):
        return
    with contextlib.ExitStack() as stack:
        uri = settings.tracking_uri or ""
        if own_tracking_server(settings):
            uri = stack.enter_context(local_stack(settings, lambda words: typer.echo(words, err=True))).tracking_uri
        from hypergauge.scheduler.tracking.tracking import Tracking

        tracking = Tracking(uri)
        for run in runs:
            if run.mlflow_run_id:
                tracking.remove(run.run_id)


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
