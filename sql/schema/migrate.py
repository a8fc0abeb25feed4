"""Numbered, immutable migrations, and functions and views that are run again when they change.

The shape is river's and telegraf's for the migrations (an applied table, an advisory lock) and promscale's for the
idempotent folder.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

import psycopg

from hypergauge.core.errors import BenchError
from hypergauge.sql.schema import extension
from hypergauge.sql.schema.flavour import Flavour, inspect

__all__ = ["Migration", "MigrationFailed", "applied", "is_current", "lock", "migrate", "newest", "pending"]

# Any constant will do, as long as nobody else in this database uses it.
_LOCK = 0x62656E6368


class MigrationFailed(BenchError):
    """The schema could not be brought up to date."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered file, in the variant of a flavour where it has variants."""

    version: int
    name: str
    text: str

    @property
    def digest(self) -> str:
        """Digest of the migration, which never changes once the migration has been applied anywhere."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def migrations(flavour: Flavour) -> list[Migration]:
    """Return all migrations for `flavour` in order."""
    found = []
    for file in _sql_files("migrations", flavour):
        version, _, name = file.name.partition(".")[0].partition("_")
        found.append(Migration(int(version), name, file.read_text(encoding="utf-8")))
    return found


def newest() -> int:
    """Return the version that this release brings a schema to."""
    return max(migration.version for flavour in Flavour for migration in migrations(flavour))


def applied(connection: psycopg.Connection) -> dict[int, str]:
    """Return version → digest of what has been applied; empty where there is no schema yet."""
    if connection.execute("select to_regclass('bench.migrations')").fetchone() == (None,):
        return {}
    return dict(connection.execute("select version, digest from bench.migrations order by version").fetchall())


def pending(connection: psycopg.Connection) -> list[Migration]:
    """Return the migrations that are still to be applied.

    Raises
    ------
    MigrationFailed
        The database is newer than this release, or an applied migration has been changed since.
    """
    known = {migration.version: migration for migration in migrations(inspect(connection).flavour)}
    done = applied(connection)
    if newer := sorted(done.keys() - known.keys()):
        raise MigrationFailed(
            f"the database is at version {newer[-1]}, this release knows {max(known)}: update hypergauge"
        )
    for version, digest in done.items():
        if known[version].digest != digest:
            raise MigrationFailed(_changed(known[version], digest))
    return [migration for version, migration in sorted(known.items()) if version not in done]


def _changed(migration: Migration, digest: str) -> str:
    made = next((flavour for flavour in Flavour for one in migrations(flavour) if one.digest == digest), None)
    if made is Flavour.POSTGRESQL:
        return (
            "the tables were made in plain PostgreSQL, before the extension timescaledb was created in this database, and "
            "cannot be changed: run `drop extension timescaledb`; or restore a backup into a database that has it from the start"
        )
    if made is Flavour.TIMESCALEDB:
        return "the tables were made by TimescaleDB Community, which this server no longer has: see timescaledb.license"
    return f"migration {migration.version} ({migration.name}) is not the one that made this database: has the file been changed?"


def is_current(connection: psycopg.Connection) -> bool:
    """Return whether there is nothing to apply: the migrations, functions and views are those of this release.

    Raises
    ------
    MigrationFailed
        As `pending`.
    """
    digest = _functions_digest(inspect(connection).flavour)
    return not pending(connection) and digest == _stored_functions_digest(connection)


def lock(connection: psycopg.Connection) -> None:
    """Keep others from migrating until the transaction is over."""
    connection.execute("select pg_advisory_xact_lock(%s)", (_LOCK,))


def migrate(connection: psycopg.Connection, to: int | None = None) -> list[Migration]:
    """Bring the schema up to date and return what was applied; safe to call at every start, from anywhere at once.

    A database that has no schema yet gets TimescaleDB first, where its server has it and its user may create it.

    `connection` must be in autocommit mode: everything happens in one transaction of its own, under an advisory lock.
    With `to`, the schema is brought to that version alone, without functions and views: they are of the newest.

    Raises
    ------
    MigrationFailed
        The database is newer than this release, its user may not change the schema, or a file does not fit what is there.
    """
    if to is None and is_current(connection):
        return []
    try:
        return _apply(connection, to)
    except psycopg.errors.InsufficientPrivilege as error:
        raise MigrationFailed(
            f"the schema is not that of this release, and {connection.info.user} may not change it "
            f"({error.diag.message_primary}): run `bench db migrate` as its owner, such as bench_owner"
        ) from error


def _apply(connection: psycopg.Connection, to: int | None) -> list[Migration]:
    with connection.transaction():
        lock(connection)
        extension.create(connection)
        flavour = inspect(connection).flavour
        todo = pending(connection)  # again: another process may have been faster
        if to is not None:
            todo = [migration for migration in todo if migration.version <= to]
        connection.execute("create schema if not exists bench")
        connection.execute("set local search_path = bench, public")
        connection.execute(
            """
            create table if not exists bench.migrations (
                version    integer primary key,
                name       text not null,
                digest     text not null,
                applied_at timestamptz not null default now())
            """
        )
        connection.execute("create table if not exists bench.functions_digest (digest text not null)")
        for migration in todo:
            _execute(connection, f"migration {migration.version} ({migration.name})", migration.text.encode())
            connection.execute(
                "insert into bench.migrations (version, name, digest) values (%s, %s, %s)",
                (migration.version, migration.name, migration.digest),
            )
        if to is not None:
            return todo
        for file in _sql_files("functions", flavour):
            _execute(connection, f"sql/schema/functions/{file.name}", file.read_bytes())
        connection.execute("delete from bench.functions_digest")
        connection.execute("insert into bench.functions_digest values (%s)", (_functions_digest(flavour),))
    return todo


def _execute(connection: psycopg.Connection, name: str, statements: bytes) -> None:
    try:
        connection.execute(statements)
    except psycopg.errors.InsufficientPrivilege:
        raise  # which says nothing of the file
    except (psycopg.ProgrammingError, psycopg.InternalError, psycopg.DataError, psycopg.IntegrityError) as error:
        said = ". ".join(filter(None, (error.diag.message_primary, error.diag.message_detail, error.diag.message_hint)))
        raise MigrationFailed(f"{name} does not fit what is in the database: {said}; nothing was changed") from error


def _sql_files(folder: str, flavour: Flavour) -> list[Traversable]:
    """Return the files of `folder` in order: those named ``0001_name.sql``, and ``0001_name.FLAVOUR.sql``."""
    entries = files("hypergauge.sql.schema").joinpath(folder).iterdir()
    wanted = (["sql"], [flavour.value, "sql"])
    return sorted((entry for entry in entries if entry.name.split(".")[1:] in wanted), key=lambda entry: entry.name)


def _functions_digest(flavour: Flavour) -> str:
    digest = hashlib.sha256()
    for file in _sql_files("functions", flavour):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _stored_functions_digest(connection: psycopg.Connection) -> str | None:
    if connection.execute("select to_regclass('bench.functions_digest')").fetchone() == (None,):
        return None
    row = connection.execute("select digest from bench.functions_digest").fetchone()
    return None if row is None else str(row[0])
