"""Numbered, immutable migrations, and functions and views that are recreated after a change.

The migrations follow river and telegraf (an applied table, an advisory lock), the idempotent folder follows promscale.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources.abc import Traversable

import psycopg

from hypergauge.core.errors import BenchError
from hypergauge.core.files.package_data import package_files
from hypergauge.sql.schema import extension
from hypergauge.sql.schema.flavour import Flavour, inspect
from hypergauge.sql.schema.replaceable import Grants, dependents, drop_replaceable
from hypergauge.sql.schema.schemas import OURS, SEARCH_PATH

__all__ = [
    "MOST_LOCKS",
    "Migration",
    "MigrationFailed",
    "applied",
    "is_current",
    "lock",
    "migrate",
    "newest",
    "pending",
]

# Arbitrary constant that no other program uses in this database.
_LOCK = 0x62656E6368
# Locks of a migration of an empty database, with room for later releases: a migration is one transaction.
MOST_LOCKS = 1500
_DEVELOPMENT = (
    "the tables were made by a development version of hypergauge, before its first release: run `bench db backup FILE` with "
    "that version, set BENCH_HOME to a new folder or BENCH_DSN to a new database, and run `bench db restore FILE` with this one"
)


class MigrationFailed(BenchError):
    """The schema could not be brought up to date."""


@dataclass(frozen=True, slots=True)
class Migration:
    """Numbered migration file, in a flavour's variant if the file has variants."""

    version: int
    name: str
    text: str

    @property
    def digest(self) -> str:
        """Digest of the text, fixed after the first use of the migration on any database."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def migrations(flavour: Flavour) -> list[Migration]:
    """Return all migrations for `flavour` in order."""
    found = []
    for file in _sql_files("migrations", flavour):
        version, _, name = file.name.partition(".")[0].partition("_")
        found.append(Migration(int(version), name, file.read_text(encoding="utf-8")))
    return found


def newest() -> int:
    """Return the schema version of this release."""
    return max(migration.version for flavour in Flavour for migration in migrations(flavour))


def applied(connection: psycopg.Connection) -> dict[int, str]:
    """Return version → digest of the applied migrations; empty without a schema.

    Raises
    ------
    MigrationFailed
        A development version created the tables.
    """
    if connection.execute("select to_regclass('bench.migrations')").fetchone() != (None,):
        raise MigrationFailed(_DEVELOPMENT)
    if connection.execute("select to_regclass('bench_internal.migrations')").fetchone() == (None,):
        return {}
    return dict(connection.execute("select version, digest from bench_internal.migrations order by version").fetchall())


def pending(connection: psycopg.Connection) -> list[Migration]:
    """Return the migrations that have not been applied yet.

    Raises
    ------
    MigrationFailed
        The database is newer than this release, or an applied migration has changed since.
    """
    known = {migration.version: migration for migration in migrations(inspect(connection).flavour)}
    done = applied(connection)
    if (there := max(done, default=0)) > newest():
        raise MigrationFailed(f"the database is at version {there}, this release knows {newest()}: update hypergauge")
    for version, digest in done.items():
        if known[version].digest != digest:
            raise MigrationFailed(_changed(known[version], digest))
    return [migration for version, migration in sorted(known.items()) if version not in done]


def _changed(migration: Migration, digest: str) -> str:
    made = next((flavour for flavour in Flavour for one in migrations(flavour) if one.digest == digest), None)
    if made is Flavour.POSTGRESQL:
        return (
            "the tables were made in plain PostgreSQL, before the extension timescaledb was created in this database, and "
            "cannot be changed: run `drop extension timescaledb`, then `bench db move` to a database that has it from the start"
        )
    if made is Flavour.TIMESCALEDB:
        return "the tables were made by TimescaleDB Community, which this server no longer has: see timescaledb.license"
    return f"migration {migration.version} ({migration.name}) differs from the one that made this database: was the file changed?"


def is_current(connection: psycopg.Connection) -> bool:
    """Return whether the migrations, functions and views are those of this release.

    Raises
    ------
    MigrationFailed
        As `pending`.
    """
    digest = _functions_digest(inspect(connection).flavour)
    return not pending(connection) and digest == _stored_functions_digest(connection)


def lock(connection: psycopg.Connection) -> None:
    """Keep other processes from migrating until the transaction ends."""
    connection.execute("select pg_advisory_xact_lock(%s)", (_LOCK,))


def migrate(connection: psycopg.Connection, to: int | None = None) -> list[Migration]:
    """Bring the schema up to date and return the applied migrations; safe to call from several processes at once.

    A database without a schema gets TimescaleDB first, if the server has it and the user may create it.

    `connection` must be in autocommit mode: the migration runs in its own transaction, under an advisory lock.
    With `to`, migrate to that version only, without functions and views, which need the newest version.

    Raises
    ------
    MigrationFailed
        The database is newer than this release, the user may not change the schema, or a file conflicts with its content.
    """
    if to is None and is_current(connection):
        return []
    try:
        return _apply(connection, to)
    except psycopg.errors.OutOfMemory as error:
        if "max_locks_per_transaction" not in (error.diag.message_hint or ""):
            raise
        raise MigrationFailed(_too_few_locks(connection)) from error
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
        todo = pending(connection)  # checked again under the lock: another process may have migrated
        if to is not None:
            todo = [migration for migration in todo if migration.version <= to]
        for schema in OURS:
            connection.execute(f"create schema if not exists {schema}".encode())
        connection.execute(f"set local search_path = {SEARCH_PATH}".encode())
        connection.execute(
            """
            create table if not exists bench_internal.migrations (
                version    integer primary key,
                name       text not null,
                digest     text not null,
                applied_at timestamptz not null default now())
            """
        )
        connection.execute("create table if not exists bench_internal.functions_digest (digest text not null)")
        for migration in todo:
            _execute(connection, f"migration {migration.version} ({migration.name})", migration.text.encode())
            connection.execute(
                "insert into bench_internal.migrations (version, name, digest) values (%s, %s, %s)",
                (migration.version, migration.name, migration.digest),
            )
        if to is not None:
            return todo
        files = {file.name: file.read_text(encoding="utf-8") for file in _sql_files("functions", flavour)}
        grants = Grants(connection)
        drop_replaceable(connection, flavour, files.values())
        users = dependents(connection)
        for name, text in files.items():
            _execute(connection, f"the function file {name}", text.encode(), users)
        grants.restore()
        connection.execute("delete from bench_internal.functions_digest")
        connection.execute("insert into bench_internal.functions_digest values (%s)", (_functions_digest(flavour),))
    return todo


def _too_few_locks(connection: psycopg.Connection) -> str:
    each, room = connection.execute(
        """
        select current_setting('max_locks_per_transaction')::int,
               current_setting('max_connections')::int + current_setting('max_prepared_transactions')::int
        """
    ).fetchone() or (64, 100)
    return (
        f"the server has no room for the {MOST_LOCKS} locks of a migration: max_locks_per_transaction = {each}; as superuser: "
        f"alter system set max_locks_per_transaction = {max(2 * each, -(-2 * MOST_LOCKS // room))}, and restart the server"
    )


def _execute(connection: psycopg.Connection, name: str, statements: bytes, users: Sequence[str] = ()) -> None:
    try:
        connection.execute(statements)
    except psycopg.errors.InsufficientPrivilege:
        raise  # missing rights, not a fault of the file
    except (psycopg.ProgrammingError, psycopg.InternalError, psycopg.DataError, psycopg.IntegrityError) as error:
        reason = ". ".join(
            filter(None, (error.diag.message_primary, error.diag.message_detail, error.diag.message_hint))
        )
        needed = (
            f"; {', '.join(users)} may need the former one: drop it, and create it again afterwards" if users else ""
        )
        raise MigrationFailed(
            f"{name} does not fit what is in the database: {reason}; nothing was changed{needed}"
        ) from error


def _sql_files(folder: str, flavour: Flavour) -> list[Traversable]:
    """Return the files below `folder` by name: ``0001_name.sql``, and ``0001_name.FLAVOUR.sql`` of the flavour."""
    wanted = (["sql"], [flavour.value, "sql"])
    found = [file for _, file in package_files("hypergauge.sql.schema", folder) if file.name.split(".")[1:] in wanted]
    return sorted(found, key=lambda file: file.name)


def _functions_digest(flavour: Flavour) -> str:
    digest = hashlib.sha256()
    for file in _sql_files("functions", flavour):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _stored_functions_digest(connection: psycopg.Connection) -> str | None:
    if connection.execute("select to_regclass('bench_internal.functions_digest')").fetchone() == (None,):
        return None
    row = connection.execute("select digest from bench_internal.functions_digest").fetchone()
    return None if row is None else str(row[0])
