"""Commands ``db …``."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from hypergauge.cli.common import Json, as_json, console, primary
from hypergauge.cli.help import Commands
from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest, BenchError, DatabaseUnavailable
from hypergauge.core.listing import counted
from hypergauge.core.terminal import Terminal
from hypergauge.sql.maintenance import aggregates
from hypergauge.sql.maintenance.background import failing_jobs
from hypergauge.sql.maintenance.tuning import costly_settings
from hypergauge.sql.queries.summaries import series_count
from hypergauge.sql.schema import extension
from hypergauge.sql.schema.flavour import inspect
from hypergauge.sql.schema.migrate import applied, migrate, pending
from hypergauge.sql.schema.schemas import SEARCH_PATH
from hypergauge.sql.server.database import Database
from hypergauge.sql.server.embedded import EmbeddedServer
from hypergauge.sql.server.session import Session
from hypergauge.sql.server.upgrade import upgrade
from hypergauge.sql.transfer.archive import Manifest
from hypergauge.sql.transfer.backup import MLFLOW, backup
from hypergauge.sql.transfer.move.move import move
from hypergauge.sql.transfer.move.target import next_steps, target_settings
from hypergauge.sql.transfer.restore import restore

__all__ = ["register"]

# Longest wait for a lock of a policy's job, or for the restart of a server.
_TIMEOUT_SECONDS = 60.0

app = Commands(
    help="The database: schema, address, shell, backup.",
    no_args_is_help=True,
    examples={
        "bench db status": "the server, and what slows it",
        "bench db shell": "select * from run_summary;",
    },
)


def register(commands: Commands) -> None:
    """Add the commands to `commands`."""
    commands.add_typer(app, name="db")


@app.command("migrate", examples={"bench db migrate": "as its owner, after an upgrade"})
def migrate_() -> None:
    """Bring the schema up to date."""
    with _held() as database, database.connect() as connection:
        done = migrate(connection)
        version = max(applied(connection))
        missed = extension.advice(connection)
    for migration in done:
        console().print(f"applied {migration.version:04} {migration.name}")
    console().print(f"the schema is at version {version}")
    if missed:
        console().print(f"[yellow]![/] {escape(missed)}")


@app.command(examples={"bench db status": "the server, and what slows it"})
def status(json: Json = False) -> None:
    """Show the server, its flavour, and the version of the schema."""
    with primary() as connection:
        server = inspect(connection)
        version, waiting = max(applied(connection)), len(pending(connection))
        series = series_count(connection)
        kept = aggregates.retention(connection).keep_raw
        failing, costly = failing_jobs(connection), costly_settings(connection)
        missed = extension.advice(connection)
    if json:
        as_json(
            {
                **asdict(server), "schema_version": version, "pending": waiting, "series": series,
                "keep_raw_days": kept and kept.days, "failing_jobs": [asdict(job) for job in failing], "costly_settings": [asdict(setting) for setting in costly],
                "timescaledb_unused": missed,
            }
        )  # fmt: skip
        return
    raw = f"raw samples are kept for {kept.days} days" if kept else "raw samples are kept forever"
    console().print(f"{server.describe()}; schema version {version}, {waiting} pending; {series} series; {raw}")
    for line in [missed, *(setting.describe() for setting in costly), *(job.describe() for job in failing)]:
        if line:
            console().print(f"[yellow]![/] {escape(line)}")


@app.command(examples={'psql "$(bench db url)"': "any client of PostgreSQL"})
def url() -> None:
    """Show the connection string. The embedded database answers while it runs, such as after `bench up`."""
    settings = Settings.load()
    typer.echo(Database(settings).dsn)
    if settings.dsn is None and not EmbeddedServer(settings.database_dir).running:
        raise DatabaseUnavailable("the embedded database is not running; `bench up` starts it")


@app.command(examples={"bench db shell": "select * from run_summary;"})
def shell() -> None:
    """Open psql on the database."""
    if shutil.which("psql") is None:
        raise BenchError("psql is not installed; `bench db url` shows the connection string for other clients")
    with Database(Settings.load()) as database:
        # In variables, because `ps` shows arguments to all users.
        environment = {
            **os.environ,
            "PGOPTIONS": f"-csearch_path={SEARCH_PATH.replace(' ', '')}",
            **database.libpq_environment(),
        }
        done = subprocess.run(["psql"], env=environment, check=False)
    raise typer.Exit(done.returncode)


@app.command(
    examples={
        "bench db maintain": "refresh and compress now",
        "bench db maintain --keep-raw 90": "delete raw samples after 90 days",
    }
)
def maintain(
    keep_raw: Annotated[
        str | None,
        typer.Option(
            metavar="DAYS", help="From now on, keep raw samples for so many days, or 'forever' as a new database does."
        ),
    ] = None,
) -> None:
    """Do now what background jobs do in time.

    That is: refresh aggregates, compress or pack, and delete expired raw samples.
    """
    if keep_raw not in (None, "forever") and not re.fullmatch("[1-9][0-9]{0,4}", keep_raw or ""):
        raise BadRequest(f"--keep-raw is a number of days, 1 or more, or 'forever', not {keep_raw!r}")
    with Database(Settings.load()) as database, Session(database, _TIMEOUT_SECONDS) as session:
        if keep_raw is not None:
            session(aggregates.keep_raw, None if keep_raw == "forever" else int(keep_raw))
        session(aggregates.maintain)
        found = session(aggregates.retention)
    kept = f"kept for {found.keep_raw.days} days" if found.keep_raw else "kept forever"
    deleted = (
        f"; those before {datetime.fromtimestamp(found.raw_cutoff, UTC):%Y-%m-%d} UTC are deleted"
        if isfinite(found.raw_cutoff)
        else ""
    )
    console().print(f"the aggregates are up to date; raw samples are {kept}{deleted}")


@app.command(
    "backup",
    examples={
        "bench db backup bench.backup": "to a file",
        "bench db backup - | ssh backup 'cat > bench.backup'": "to another host",
    },
)
def backup_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write; - for standard output.")],
    force: Annotated[bool, typer.Option("--force", help="Replace an existing FILE.")] = False,
) -> None:
    """Back up the whole database to one file, while it is in use."""
    with _held() as database:
        manifest = backup(database, file, replace=force, notify=_notify)
    size = "" if str(file) == "-" else f", {file.stat().st_size / (1 << 20):.1f} MiB"
    _notify(f"wrote {file}: {_describe(manifest)}{size}")


@app.command("restore", examples={"bench db restore bench.backup": "of BENCH_DSN, or embedded"})
def restore_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file of `bench db backup`.")],
) -> None:
    """Restore a backup into a database without runs: all or nothing.

    The database has no samples either. It may be of the other flavour: PostgreSQL or TimescaleDB.
    """
    with _held() as database:
        manifest = restore(database, file, notify=_notify)
    _notify(f"restored {file}: {_describe(manifest)}; written {manifest.created_at} by hypergauge {manifest.release}")


@app.command(
    "move",
    examples={
        "bench db move postgresql://bench_owner@db/bench": "to a server",
        "bench db move embedded": "back, to an empty one",
    },
)
def move_(
    to: Annotated[
        str,
        typer.Argument(
            metavar="DSN",
            help="Connection string of the target, a file with it, or 'embedded'. `ps` shows passwords of arguments, but no file.",
        ),
    ],
    plain: Annotated[
        bool, typer.Option("--plain", help="Accept plain PostgreSQL on a server with an unused TimescaleDB.")
    ] = False,
) -> None:
    """Move everything to an empty database of either flavour, and compare both.

    The source stays as it is. After an interruption the same command continues.
    """
    settings = Settings.load()
    target = target_settings(settings, to)
    with _held() as source, contextlib.closing(Database(target)) as database:
        database.hold()
        done = move(source, database, plain=plain, notify=_notify)
    if done.earlier is not None:
        _notify(f"nothing to do: this move to {done.server} ended at {done.earlier:%Y-%m-%d %H:%M} UTC")
    else:
        mlflow = f", {counted(done.mlflow, 'row')} of MLflow" if done.mlflow else ""
        moved = f"{counted(done.runs, 'run')}, {counted(done.samples, 'sample')}{mlflow}"
        _notify(f"moved {moved} to {done.server}; checksums agree")
    for line in next_steps(settings, target):
        _notify(line)


@app.command("upgrade", examples={"bench db upgrade": "where another command asks for it"})
def upgrade_() -> None:
    """Upgrade the embedded database to PostgreSQL of this release.

    The old data are kept, in a folder that the command names.
    """
    settings = Settings.load()
    if settings.dsn:
        raise BadRequest("BENCH_DSN is set, so no embedded database is in use; upgrade that server by its own means")
    server = EmbeddedServer(settings.database_dir)
    done = upgrade(server, _notify)
    if done is None:
        _notify(f"nothing to do: the data are those of PostgreSQL {server.made_by} already")
        return
    _notify(f"upgraded to PostgreSQL {done.new}, with all {done.rows} rows")
    _notify(f"the data of PostgreSQL {done.old} are kept in {done.kept}; to delete them: rm -r {done.kept}")


@contextlib.contextmanager
def _held() -> Iterator[Database]:
    """Open the database without migrating its schema."""
    database = Database(Settings.load())
    database.hold()
    try:
        yield database
    finally:
        database.close()


def _describe(manifest: Manifest) -> str:
    rows = {table.name: table.rows for table in manifest.tables if table.schema == "bench"}
    mlflow = f", MLflow's {sum(table.rows for table in manifest.tables if table.schema == MLFLOW)} rows"
    return (
        f"{counted(rows.get('runs', 0), 'run')}, {counted(rows.get('samples', 0), 'sample')}{mlflow if manifest.scripts else ''}; "
        f"schema version {manifest.schema_version}"
    )


def _notify(line: str) -> None:
    # To standard error, because standard output may be the backup.
    Terminal(stderr=True, soft_wrap=True).print(escape(line))
