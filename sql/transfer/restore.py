"""Restore of a backup into a database of either flavour, in one transaction.

The schema is made at the version that the file is of, filled, and then migrated: a backup of an older release goes
through the same migrations as a database of that release.
"""

from __future__ import annotations

import graphlib
import zipfile
from collections.abc import Callable
from pathlib import Path

import psycopg
from psycopg import sql

from hypergauge.core.errors import BadRequest
from hypergauge.sql.maintenance.aggregates import refresh
from hypergauge.sql.schema.flavour import Flavour, inspect
from hypergauge.sql.schema.migrate import lock, migrate, pending
from hypergauge.sql.server.database import Connection, Database
from hypergauge.sql.server.session import Session
from hypergauge.sql.transfer.archive import Manifest, Table, opened
from hypergauge.sql.transfer.backup import MLFLOW
from hypergauge.sql.transfer.members import copy_in

__all__ = ["restore"]

# For a policy's job that is at what has to go: all is done again, or nothing.
_PATIENCE_SECONDS = 60.0
# Samples are sorted in a backup, so they can be compressed as they come.
_DIRECT_COMPRESS = ("timescaledb.enable_direct_compress_copy", "timescaledb.enable_direct_compress_copy_client_sorted")


def restore(database: Database, path: Path, say: Callable[[str], None] = lambda _: None) -> Manifest:
    """Restore the backup `path` into `database`, which holds no runs and no samples, and return what it holds.

    Raises
    ------
    BadRequest
        The file is damaged, of a newer release, or none of ours; or the database is not empty, or in use.
    """
    say("Checking the file …")
    with opened(path) as (archive, manifest), Session(database, _PATIENCE_SECONDS) as session:
        session(_replace, archive, manifest, say)
        say("Refreshing the aggregates …")
        session(refresh)
        session(psycopg.Connection.execute, "analyze")
    return manifest


def _replace(connection: Connection, archive: zipfile.ZipFile, manifest: Manifest, say: Callable[[str], None]) -> None:
    flavour = inspect(connection).flavour
    with connection.transaction():
        _clear(connection)
        _fill(connection, flavour, archive, manifest, say)


def _clear(connection: Connection) -> None:
    """Remove the empty schema that is there; one that is not empty, or in use, is refused."""
    lock(connection)
    if others := _others(connection):
        raise BadRequest(
            f"{others} other connection{'s' if others > 1 else ''} to this database: end what uses it (`bench down`, "
            "a collector, a scheduler, MLflow), and repeat"
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
    if foreign := _dependents(connection):
        raise BadRequest(f"what is not ours depends on the schema `bench`, drop it first: {', '.join(foreign)}")
    connection.execute("drop schema if exists bench_own cascade")
    connection.execute("drop schema if exists bench cascade")


def _others(connection: Connection) -> int:
    row = connection.execute(
        """
        select count(*) from pg_stat_activity
        where datname = current_database() and usename = current_user and backend_type = 'client backend'
          and pid <> pg_backend_pid()
        """
    ).fetchone()
    return 0 if row is None else int(row[0])


def _dependents(connection: Connection) -> list[str]:
    """Return views of other schemas that read ours: `drop … cascade` would take them along."""
    rows = connection.execute(
        """
        select distinct format('%I.%I', n.nspname, v.relname)
        from pg_depend d
        join pg_class c on d.refclassid = 'pg_class'::regclass and d.refobjid = c.oid
        join pg_namespace ours on ours.oid = c.relnamespace and ours.nspname in ('bench', 'bench_own')
        join pg_rewrite r on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid
        join pg_class v on v.oid = r.ev_class join pg_namespace n on n.oid = v.relnamespace
        where n.nspname not in ('bench', 'bench_own') and n.nspname not like '\\_timescaledb%'
        order by 1
        """
    ).fetchall()
    return [name for (name,) in rows]


def _fill(
    connection: Connection, flavour: Flavour, archive: zipfile.ZipFile, manifest: Manifest, say: Callable[[str], None]
) -> None:
    migrate(connection, to=manifest.schema_version)
    owners = {schema: _owner(connection, schema) for schema in manifest.scripts}
    for schema, (before, _) in manifest.scripts.items():
        connection.execute(sql.SQL("drop schema if exists {} cascade").format(sql.Identifier(schema)))
        connection.execute(archive.read(before))
    # Migrations put rows in some tables.
    tables = _known(connection, manifest, say)
    ours = [sql.Identifier(table.schema, table.name) for table in tables if _is_table(table)]
    connection.execute(sql.SQL("truncate {}").format(sql.SQL(", ").join(ours)))
    for name in _DIRECT_COMPRESS:
        connection.execute("select set_config(name, 'on', true) from pg_settings where name = %s", (name,))
    for table in _in_order(connection, tables):
        copy_in(connection, archive, table, _place(flavour, table))
        if table.rows >= 100_000:
            say(f"{table.schema}.{table.name}: {table.rows} rows")
    for sequence, value in manifest.sequences.items():
        connection.execute("select setval(r, %s) from to_regclass(%s) r where r is not null", (value, sequence))
    for _, after in manifest.scripts.values():
        if script := archive.read(after).strip():
            connection.execute(script)
    for schema, owner in owners.items():
        _give(connection, schema, owner)
    migrate(connection)
    if flavour is Flavour.POSTGRESQL:
        connection.execute("select bench.store_upper_levels()")


def _owner(connection: Connection, schema: str) -> str:
    """Return whose a schema is, or would be."""
    row = connection.execute(
        "select coalesce((select pg_get_userbyid(nspowner) from pg_namespace where nspname = %s), current_user)",
        (schema,),
    ).fetchone()
    assert row is not None
    return str(row[0])


def _give(connection: Connection, schema: str, owner: str) -> None:
    """Make a schema and its tables `owner`'s, who may be another role than the one that restores: MLflow's own."""
    changes = connection.execute(
        """
        select format('alter schema %%I owner to %%I', nspname, %(owner)s::text)
        from pg_namespace where nspname = %(schema)s and pg_get_userbyid(nspowner) <> %(owner)s
        union all
        select format('alter table %%I.%%I owner to %%I', schemaname, tablename, %(owner)s::text)
        from pg_tables where schemaname = %(schema)s and tableowner <> %(owner)s
        """,
        {"schema": schema, "owner": owner},
    ).fetchall()
    for (change,) in changes:
        connection.execute(change.encode())


def _known(connection: Connection, manifest: Manifest, say: Callable[[str], None]) -> list[Table]:
    """Return the members that have a place; a table that somebody made in our schema has none, and is named."""
    rows = connection.execute("select schemaname, tablename from pg_tables").fetchall()
    known = []
    for table in manifest.tables:
        if not _is_table(table) or (table.schema, table.name) in rows:
            known.append(table)
        else:
            say(f"left out: {table.schema}.{table.name} ({table.rows} rows) is not a table of hypergauge's")
    return known


def _is_table(table: Table) -> bool:
    """Return whether a member is of a table, and not of the aggregates below the edge of retention."""
    return (table.schema, table.name) != ("bench", "samples_10s")


def _place(flavour: Flavour, table: Table) -> tuple[str, str]:
    """Return the table that takes a member's rows."""
    if _is_table(table):
        return table.schema, table.name
    return table.schema, "samples_10s_late" if flavour is Flavour.TIMESCALEDB else "samples_10s_stored"


def _in_order(connection: Connection, tables: list[Table]) -> list[Table]:
    """Return the tables such that what a foreign key refers to comes before what refers."""
    by_name = {f"{table.schema}.{table.name}": table for table in tables}
    graph: dict[str, set[str]] = {name: set() for name in by_name}
    for one, other in connection.execute(
        """
        select concat(n.nspname, '.', t.relname), concat(m.nspname, '.', r.relname)
        from pg_constraint c
        join pg_class t on t.oid = c.conrelid join pg_namespace n on n.oid = t.relnamespace
        join pg_class r on r.oid = c.confrelid join pg_namespace m on m.oid = r.relnamespace
        where c.contype = 'f' and c.conrelid <> c.confrelid
        """
    ).fetchall():
        if one in graph and other in graph:
            graph[one].add(other)
    return [by_name[name] for name in graphlib.TopologicalSorter(graph).static_order()]
