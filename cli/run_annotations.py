"""Commands ``note``, ``keep`` and ``rm``."""

from __future__ import annotations

import contextlib
import getpass
import shutil
import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.markup import escape

from hypergauge.cli.common import Attempts, Json, as_json, console, counted, every_attempt, primary
from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest
from hypergauge.core.files.run_folder import RunFolder
from hypergauge.dashboards.terminal import tables
from hypergauge.sql.runs import run_annotations
from hypergauge.sql.runs.selection import RunInfo, select_run, select_runs
from hypergauge.stack.local_stack import local_stack
from hypergauge.stack.tracking_server import own_tracking_server

__all__ = ["register"]

Chosen = Annotated[list[str], typer.Argument(metavar="SELECTOR...", help="Such as 20/1/3, or a run's id.")]


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command()(note)
    app.command()(keep)
    app.command()(rm)


def note(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run.")],
    text: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT", help="The note; without it the note is shown.")
    ] = None,
    append: Annotated[bool, typer.Option("--append", help="Add a paragraph to the note.")] = False,
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace the note.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the note.")] = False,
    json: Json = False,
) -> None:
    """Add a note to a run, or show it."""
    content = " ".join(text) if text else None
    chosen_options = [name for name, given in (("--append", append), ("--force", force), ("--remove", remove)) if given]
    if len(chosen_options) > 1:
        raise BadRequest(f"{' and '.join(chosen_options)} exclude each other")
    if content is None and (append or force):
        raise BadRequest(f"the text is missing: bench note {run} {chosen_options[0]} 'TEXT'")
    if content is not None and remove:
        raise BadRequest(f"--remove takes no text: bench note {run} --remove")
    if content is not None and not content.strip():
        raise BadRequest("the note is empty; --remove removes one")
    with primary() as connection:
        chosen = select_run(connection, run)
        wanted = chosen.note
        if remove:
            wanted = None
        elif content is not None:
            if chosen.note and not (append or force):
                raise BadRequest(f"{chosen.label} has a note: --append adds to it, --force replaces it")
            wanted = f"{chosen.note}\n\n{content}" if append and chosen.note else content
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
    selectors: Chosen,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be removed.")] = False,
    others: Annotated[bool, typer.Option("--others", help="Include other users' runs.")] = False,
    attempts: Attempts = "latest",
    json: Json = False,
) -> None:
    """Remove runs with their samples, their output and their MLflow runs."""
    settings = Settings.load()
    with primary(settings) as connection:
        runs = select_runs(connection, selectors, every_attempt=every_attempt(attempts))
        run_annotations.check_may_remove(connection)
        _check_removable(runs, others)
        if not json:
            console().print(tables.runs(runs))
        samples = 0
        if not dry_run:
            if not yes:
                _confirm(runs, json=json)
            _remove_from_tracking(settings, runs)
            samples = run_annotations.remove_runs(connection, [run.run_id for run in runs])
            for run in runs:
                if folder := RunFolder.find(settings.home, run.run_id):
                    shutil.rmtree(folder.path, ignore_errors=True)
    if json:
        removed = [{"run": run.full_label, "run_id": run.run_id} for run in runs]
        as_json({"removed": not dry_run, "runs": removed, "samples": None if dry_run else samples})
    elif not dry_run:
        console().print(f"Removed {counted(len(runs), 'run')} with {counted(samples, 'sample')}")


def _check_removable(runs: Sequence[RunInfo], others: bool) -> None:
    """Refuse to remove the runs if one of them must stay."""
    me = getpass.getuser()
    refused = [
        ("of another user; --others removes them too", [run for run in runs if run.owner != me and not others]),
        ("not ended; `bench stop` ends them", [run for run in runs if run.status in ("pending", "running")]),
        ("protected; `bench keep --undo` removes the protection", [run for run in runs if run.keep]),
    ]
    for why, which in refused:
        if which:
            names = ", ".join(f"{run.full_label} ({run.owner})" for run in which[:6])
            raise BadRequest(f"{names}{' …' * (len(which) > 6)}: {why}; nothing was removed")


def _confirm(runs: Sequence[RunInfo], *, json: bool) -> None:
    if json or not sys.stdin.isatty():
        raise BadRequest("there is no terminal to confirm on: --yes removes them, --dry-run only shows them")
    typer.confirm(f"Remove {counted(len(runs), 'run')} with samples, output and artifacts for good?", abort=True)


def _remove_from_tracking(settings: Settings, runs: Sequence[RunInfo]) -> None:
    """Remove the runs from MLflow first: if it refuses, the database still has them."""
    if not any(run.mlflow_run_id for run in runs):
        return
    with contextlib.ExitStack() as stack:
        uri = settings.tracking_uri or ""
        if own_tracking_server(settings):
            uri = stack.enter_context(local_stack(settings, lambda line: typer.echo(line, err=True))).tracking_uri
        from hypergauge.scheduler.tracking.tracking import Tracking

        tracking = Tracking(uri)
        for run in runs:
            if run.mlflow_run_id:
                tracking.remove(run.run_id)
