"""Restore of a backup into a database of either flavour, in one transaction.

The restore creates the schema in the file's version, fills it, and then migrates it. So a backup of an older release
passes the same migrations as a database of that release.
"""

from __future__ import annotations

import graphlib
import zipfile
from collections.abc import Callable, Iterable, Set
from dataclasses import replace
from pathlib import Path

import psycopg
from psycopg import sql

from hypergauge.core.errors import BadRequest
from hypergauge.core.system.polling import wait_until
from hypergauge.sql.maintenance.aggregates import refresh
from hypergauge.sql.schema.flavour import Flavour, inspect
from hypergauge.sql.schema.migrate import lock, migrate, pending
from hypergauge.sql.schema.schemas import INTERNAL, OURS, OWN, PUBLIC
from hypergauge.sql.server.database import Connection, Database
from hypergauge.sql.server.session import Session
from hypergauge.sql.transfer import earlier
from hypergauge.sql.transfer.archive import BadBackup, Manifest, Table, opened
from hypergauge.sql.transfer.backup import MLFLOW
from hypergauge.sql.transfer.members import copy_in, refusals

__all__ = ["DIRECT_COMPRESS", "in_order", "owner", "restore", "set_owner"]

_Name = tuple[str, str]  # schema and table
# Table behind the view ``samples`` of plain PostgreSQL, from its schema version 3 on.
_UNPACKED: _Name = (INTERNAL, "unpacked_samples")
# Time for retries of the whole transaction, after a conflict with a policy's job.
_TIMEOUT_SECONDS = 60.0
# The server ends a connection some time after its client has closed it.
_LEAVING_SECONDS = 3.0
# Samples are sorted in a backup, so the server can compress them as they arrive.
DIRECT_COMPRESS = ("timescaledb.enable_direct_compress_copy", "timescaledb.enable_direct_compress_copy_client_sorted")


def restore(database: Database, path: Path, notify: Callable[[str], None] = lambda _: None) -> Manifest:
    """Restore the backup `path` into `database`, which must hold no runs and no samples. Return the manifest.

    Raises
    ------
    BadRequest
        The file is damaged, unknown, or from a newer release; or the database is in use or not empty.
    """
    notify("Checking the file …")
    with opened(path) as (archive, manifest), Session(database, _TIMEOUT_SECONDS) as session:
        try:
            earlier.refuse_oldest(manifest)
        except BadBackup as error:
            raise BadBackup(str(error), file=path) from None
        session(_replace, archive, manifest, notify)
        notify("Refreshing the aggregates …")
        session(refresh)
        session(psycopg.Connection.execute, "analyze")
    return manifest


def _replace(
    connection: Connection, archive: zipfile.ZipFile, manifest: Manifest, notify: Callable[[str], None]
) -> None:
    flavour = inspect(connection).flavour
    with connection.transaction():
        _clear(connection)
        with refusals(archive):
            _fill(connection, flavour, archive, manifest, notify)


def _clear(connection: Connection) -> None:
    """Drop the existing empty schema. Refuse a database that is in use or not empty."""
    lock(connection)
    wait_until(lambda: _others(connection) == 0, _LEAVING_SECONDS)
    if others := _others(connection):
        raise BadRequest(
            f"{others} other connection{'s' if others > 1 else ''} to this database: stop its clients (`bench down`, "
            "a collector, a scheduler, MLflow), and retry"
        )
    pending(connection)  # refuses a database of a newer release
    for table in ("bench.runs", "bench.samples", f"{MLFLOW}.runs"):
        if connection.execute("select to_regclass(%s)", (table,)).fetchone() == (None,):
            continue
        name = sql.Identifier(*table.split("."))
        connection.execute(sql.SQL("lock table {} in access exclusive mode").format(name))
        if connection.execute(sql.SQL("select from {} limit 1").format(name)).fetchone() is not None:
            raise BadRequest(
                f"the database is not empty ({table} has rows), and a restore goes into an empty one: set BENCH_HOME to a new "
                "folder, or BENCH_DSN to a new database (`create database …`)"
            )
    if dependents := _dependents(connection):
        raise BadRequest(
            f"objects outside hypergauge depend on the schema `bench`, drop them first: {', '.join(dependents)}"
        )
    for schema in (OWN, *OURS):
        connection.execute(sql.SQL("drop schema if exists {} cascade").format(sql.Identifier(schema)))


def _others(connection: Connection) -> int:
    connection.execute("select pg_stat_clear_snapshot()")  # or a transaction sees the same connections each time
    row = connection.execute(
        """
        select count(*) from pg_stat_activity
        where datname = current_database() and usename = current_user and backend_type = 'client backend'
          and pid <> pg_backend_pid()
        """
    ).fetchone()
    return 0 if row is None else int(row[0])


def _dependents(connection: Connection) -> list[str]:
    """Return views of other schemas that read ours, since `drop … cascade` would drop them too."""
    rows = connection.execute(
        """
        select distinct format('%%I.%%I', n.nspname, v.relname)
        from pg_depend d
        join pg_class c on d.refclassid = 'pg_class'::regclass and d.refobjid = c.oid
        join pg_namespace ours on ours.oid = c.relnamespace and ours.nspname = any(%(ours)s)
        join pg_rewrite r on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid
        join pg_class v on v.oid = r.ev_class join pg_namespace n on n.oid = v.relnamespace
        where n.nspname <> all(%(ours)s) and n.nspname not like '\\_timescaledb%%'
        order by 1
        """,
        {"ours": [*OURS, OWN]},
    ).fetchall()
    return [name for (name,) in rows]


def _fill(
    connection: Connection,
    flavour: Flavour,
    archive: zipfile.ZipFile,
    manifest: Manifest,
    notify: Callable[[str], None],
) -> None:
    migrate(connection, to=earlier.version(manifest))
    owners = {schema: owner(connection, schema) for schema in manifest.scripts}
    for schema, (before, _) in manifest.scripts.items():
        connection.execute(sql.SQL("drop schema if exists {} cascade").format(sql.Identifier(schema)))
        connection.execute(archive.read(before))
    # Migrations insert rows into some tables.
    tables = _known(connection, flavour, manifest, notify)
    names = sql.SQL(", ").join(sql.Identifier(*name) for name in tables)
    connection.execute(sql.SQL("truncate {}").format(names))
    for name in DIRECT_COMPRESS:
        connection.execute("select set_config(name, 'on', true) from pg_settings where name = %s", (name,))
    for qualified in in_order(connection, tables):
        table, target = tables[qualified]
        copy_in(connection, archive, table, target)
        if table.rows >= 100_000:
            notify(f"{table.schema}.{table.name}: {table.rows} rows")
    for sequence, value in manifest.sequences.items():
        connection.execute(
            "select setval(r, %s) from to_regclass(%s) r where r is not null",
            (value, earlier.sequence(manifest, sequence)),
        )
    for _, after in manifest.scripts.values():
        if script := archive.read(after).strip():
            connection.execute(script)
    for schema, role in owners.items():
        set_owner(connection, schema, role)
    migrate(connection)
    # What lies below the raw cutoff came as aggregates, so a move that the backup met is over. Its late samples have waited.
    connection.execute("update bench_internal.retention set moved_from = null where moved_from is not null")
    connection.execute("select bench_internal.write_below_cutoff()")
    if flavour is Flavour.POSTGRESQL:
        connection.execute("select bench_internal.store_upper_levels()")


def owner(connection: Connection, schema: str) -> str:
    """Return the owner of a schema; for a missing schema, the current user."""
    row = connection.execute(
        "select coalesce((select pg_get_userbyid(nspowner) from pg_namespace where nspname = %s), current_user)",
        (schema,),
    ).fetchone()
    assert row is not None
    return str(row[0])


def set_owner(connection: Connection, schema: str, role: str) -> None:
    """Assign a schema and its tables to `role`, for example MLflow's own role."""
    changes = connection.execute(
        """
        select format('alter schema %%I owner to %%I', nspname, %(owner)s::text)
        from pg_namespace where nspname = %(schema)s and pg_get_userbyid(nspowner) <> %(owner)s
        union all
        select format('alter table %%I.%%I owner to %%I', schemaname, tablename, %(owner)s::text)
        from pg_tables where schemaname = %(schema)s and tableowner <> %(owner)s
        """,
        {"schema": schema, "owner": role},
    ).fetchall()
    for (change,) in changes:
        connection.execute(change.encode())


def _known(
    connection: Connection, flavour: Flavour, manifest: Manifest, notify: Callable[[str], None]
) -> dict[_Name, tuple[Table, Table]]:
    """Return the members with their target tables. Report and skip members without one, such as a user's table."""
    existing = set(connection.execute("select schemaname, tablename from pg_tables").fetchall())
    known = {}
    for table in manifest.tables:
        target = _target(flavour, manifest, table, existing)
        if (name := (target.schema, target.name)) in existing:
            known[name] = table, target
        else:
            notify(f"left out: {table.schema}.{table.name} ({table.rows} rows) is not a table of hypergauge's")
    return known


def _target(flavour: Flavour, manifest: Manifest, table: Table, existing: Set[_Name]) -> Table:
    """Return the target table of a member."""
    if (table.schema, table.name) == (PUBLIC, "samples_10s"):  # the aggregates below the raw cutoff
        name = "samples_10s_late" if flavour is Flavour.TIMESCALEDB else "samples_10s_stored"
        return replace(table, schema=INTERNAL, name=name)
    if (table.schema, table.name) == (PUBLIC, "samples") and _UNPACKED in existing:
        return replace(table, schema=INTERNAL, name=_UNPACKED[1])
    return earlier.target(manifest, table)


def in_order(connection: Connection, tables: Iterable[_Name]) -> list[_Name]:
    """Return the tables sorted so that a referenced table precedes its references."""
    graph: dict[_Name, set[_Name]] = {name: set() for name in tables}
    for schema, name, other_schema, other_name in connection.execute(
        """
        select n.nspname, t.relname, m.nspname, r.relname
        from pg_constraint c
        join pg_class t on t.oid = c.conrelid join pg_namespace n on n.oid = t.relnamespace
        join pg_class r on r.oid = c.confrelid join pg_namespace m on m.oid = r.relnamespace
        where c.contype = 'f' and c.conrelid <> c.confrelid
        """
    ).fetchall():
        one, other = (schema, name), (other_schema, other_name)
        if one in graph and other in graph:
            graph[one].add(other)
    return list(graphlib.TopologicalSorter(graph).static_order())
