"""Extension TimescaleDB of a database: created if possible, else suggested to the user."""

from __future__ import annotations

import psycopg

from hypergauge.core.pages import Page
from hypergauge.sql.schema.flavour import Flavour, inspect

__all__ = ["advice", "create"]


def create(connection: psycopg.Connection) -> None:
    """Create the extension in a database without our schema, if the server and the user's rights allow it.

    Tables of plain PostgreSQL never become hypertables, so an existing schema stays unchanged.
    """
    if _unused(connection) is None or not _loaded(connection) or _has_schema(connection):
        return
    try:
        with connection.transaction():
            connection.execute("create extension timescaledb schema public")
            if inspect(connection).flavour is not Flavour.TIMESCALEDB:
                raise psycopg.Rollback  # the Apache build lacks the needed features
    except (psycopg.ProgrammingError, psycopg.InternalError, psycopg.NotSupportedError):
        return  # `advice` names the remedy


def advice(connection: psycopg.Connection) -> str | None:
    """Return advice if the server has a TimescaleDB that this database does not use, else ``None``."""
    if inspect(connection).flavour is Flavour.TIMESCALEDB:
        return None
    row = connection.execute(
        """
        select default_version, installed_version is not null, coalesce(comment, '') ~* 'apache',
               current_setting('timescaledb.license', true) = 'apache'
        from pg_available_extensions where name = 'timescaledb'
        """
    ).fetchone()
    if row is None:
        return None
    version, created, apache_build, apache_license = row
    steps = []
    if created and _has_schema(connection):
        steps.append("run `drop extension timescaledb` here")
    if apache_build:
        steps.append("replace the package by that of the Community build, such as timescaledb-2-postgresql-18")
    if apache_license:
        steps.append("set timescaledb.license = 'timescale' in postgresql.conf and restart the server")
    if not created and not _loaded(connection):
        steps.append("add timescaledb to shared_preload_libraries in postgresql.conf and restart the server")
    name = connection.info.dbname
    if _has_schema(connection):
        steps.append(
            "make a new database, run `create extension timescaledb` in it, and `bench db move DSN`; existing tables cannot "
            "be converted"
        )
    elif not created:
        steps.append(f'run `psql -d {name} -c "create extension timescaledb"` as a superuser, then `bench db migrate`')
    return Page.OWN_DATABASE.after(f"{_state(version, apache_build or apache_license, name)}{'; then '.join(steps)}")


def _state(version: str, apache: bool, name: str) -> str:
    if apache:
        return (
            f"TimescaleDB {version} of the server has the Apache license, so it lacks the columnstore (compression) and "
            f"continuous aggregates: the database {name} works as plain PostgreSQL, slower and larger. For the Community "
            "build, "
        )
    return (
        f"TimescaleDB {version} is installed on the server, and the database {name} does not use it: it works as plain "
        "PostgreSQL, slower and larger. If it is the Community build, "
    )


def _unused(connection: psycopg.Connection) -> str | None:
    """Return the available TimescaleDB version, ``None`` if there is none or it is already created."""
    row = connection.execute(
        "select default_version from pg_available_extensions where name = 'timescaledb' and installed_version is null"
    ).fetchone()
    return None if row is None else str(row[0])


def _loaded(connection: psycopg.Connection) -> bool:
    # Without the library, `create extension` ends the connection. Not every user may see the loaded libraries, but
    # every user sees a setting that only this library defines.
    row = connection.execute("select from pg_settings where name = 'timescaledb.max_background_workers'").fetchone()
    return row is not None


def _has_schema(connection: psycopg.Connection) -> bool:
    return connection.execute("select to_regclass('bench_internal.migrations')").fetchone() != (None,)
