"""Commands around the database: ``bench db …``."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import asdict

import typer

from bench.cli.common import Json, as_json, console, reading
from bench.config import Settings
from bench.errors import BenchError
from sql.database import Database
from sql.flavour import inspect
from sql.migrate import applied, migrate, pending

__all__ = ["app"]

app = typer.Typer(help="The database: schema, address, shell.", no_args_is_help=True)


@app.command("migrate")
def migrate_() -> None:
    """Bring the schema up to date."""
    database = Database(Settings.load())
    database.hold()
    try:
        with database.connect() as connection:
            done = migrate(connection)
            version = max(applied(connection))
    finally:
        database.close()
    for migration in done:
        console().print(f"applied {migration.version:04} {migration.name}")
    console().print(f"the schema is at version {version}")


@app.command()
def status(json: Json = False) -> None:
    """Show the server, its flavour, and the version of the schema."""
    with reading() as connection:
        server = inspect(connection)
        version, waiting = max(applied(connection)), len(pending(connection))
        row = connection.execute("select count(*) from series").fetchone()
    assert row is not None
    if json:
        as_json({**asdict(server), "schema_version": version, "pending": waiting, "series": row[0]})
    else:
        console().print(f"{server.describe()}; schema version {version}, {waiting} to be applied; {row[0]} series")


@app.command()
def url() -> None:
    """Write the connection string. An embedded database answers to it while something holds it, such as `bench up`."""
    with Database(Settings.load()) as database:
        typer.echo(database.dsn)


@app.command()
def shell() -> None:
    """Open psql on the database."""
    if shutil.which("psql") is None:
        raise BenchError("psql is not installed; `bench db url` says where the database is")
    with Database(Settings.load()) as database:
        # In the environment, not among the arguments, which `ps` shows to everybody.
        environment = {**os.environ, "PGOPTIONS": "-csearch_path=bench,public", **database.libpq_environment()}
        done = subprocess.run(["psql"], env=environment, check=False)
    raise typer.Exit(done.returncode)
