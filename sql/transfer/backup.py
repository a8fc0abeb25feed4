"""Backup of the whole database in one file, for either flavour. `hypergauge.sql.transfer.archive` defines its form.

Tables are read from the catalog, so that a new one is in the backup without being named here. All are read in one
snapshot, while others write. What is derived is left out: the schema comes from the migrations, and the aggregates from
the samples, but for those whose samples retention has deleted.
"""

from __future__ import annotations

import os
import re
import subprocess
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from psycopg import sql

from hypergauge import __version__
from hypergauge.core.errors import NoData
from hypergauge.sql.schema.flavour import Flavour, inspect
from hypergauge.sql.schema.migrate import applied
from hypergauge.sql.server.database import Connection, Database, StatementFailed
from hypergauge.sql.server.programs import Programs
from hypergauge.sql.transfer.archive import Manifest, Table, writing
from hypergauge.sql.transfer.members import copy_out, selected
from hypergauge.sql.transfer.snapshot import snapshot

__all__ = ["BELOW_EDGE", "LEFT_OUT", "MLFLOW", "backup"]

# Tables that a migration fills by itself; and what is there on a host now, which no other database may take for its own.
LEFT_OUT = frozenset({"migrations", "functions_digest", "owned_devices"})
# Where each flavour keeps the aggregates below the edge of retention; in a backup they are one member, samples_10s.
BELOW_EDGE = frozenset({"samples_10s_stored", "samples_1m_stored", "samples_10m_stored", "samples_10s_late"})
MLFLOW = "mlflow"

# What differs from version to version in a dump, and no table of MLflow's needs: settings, commands of psql, and options of
# columns (hints for the planner, and what some servers note there for themselves, which others refuse).
_OPTIONAL = re.compile(
    rb"SET |SELECT pg_catalog\.set_config|\\|ALTER TABLE ONLY [^;]+ ALTER COLUMN [^;]+ SET \([^;]*\);$"
)


def backup(
    database: Database, path: Path, *, replace: bool = False, say: Callable[[str], None] = lambda _: None
) -> Manifest:
    """Write a backup of `database` to `path`, and return what it holds.

    Raises
    ------
    NoData
        The database holds nothing of ours.
    BadRequest
        `path` exists, and is not to be replaced.
    """
    with database.session() as connection:
        versions = applied(connection)
        if not versions:
            raise NoData("there is no schema `bench` in this database, so nothing to back up")
        server = inspect(connection)
        with writing(path, replace=replace) as archive, snapshot(connection, "share update exclusive") as moment:
            tables = []
            for table, query in _relations(connection, server.flavour):
                tables.append(copied := copy_out(connection, archive, table, query))
                if copied.rows >= 100_000:
                    say(f"{table.schema}.{table.name}: {copied.rows} rows")
            scripts = {}
            if any(table.schema == MLFLOW for table in tables):
                scripts[MLFLOW] = _scripts(database, archive, moment)
            manifest = Manifest(
                release=__version__,
                schema_version=max(versions),
                server=server.describe(),
                created_at=datetime.now(UTC).isoformat(timespec="seconds"),
                tables=tuple(tables),
                sequences=_sequences(connection),
                scripts=scripts,
            )
            manifest.write(archive)
    return manifest


def _relations(connection: Connection, flavour: Flavour) -> list[tuple[Table, sql.Composable]]:
    """Return what there is to back up, with the query that reads it; rows are counted later."""
    found: list[tuple[Table, sql.Composable]] = []
    for schema, name, columns in connection.execute(
        """
        select n.nspname, c.relname, array_agg(a.attname::text order by a.attnum)
        from pg_class c join pg_namespace n on n.oid = c.relnamespace
        join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
        where c.relkind in ('r', 'p') and not c.relispartition and n.nspname = any(%s)
        group by 1, 2 order by 1, 2
        """,
        (["bench", MLFLOW],),
    ).fetchall():
        if schema == "bench" and (name in LEFT_OUT or name in BELOW_EDGE):
            continue
        query = selected(schema, name, columns)
        if (schema, name) == ("bench", "samples"):
            # As the columnstore keeps them, so that it can take them as they come.
            query += sql.SQL(" order by series_id, time")
        found.append((Table(schema, name, tuple(columns), 0), query))
    if (edge := _edge(connection)) is not None:
        # The levels above are made of it again.
        columns = ["bucket", "series_id", "runset_id", "n", "seconds", "area", "min", "max"]
        query = selected("bench", "samples_10s", columns) + sql.SQL(" where bucket < {}").format(sql.Literal(edge))
        if flavour is Flavour.TIMESCALEDB:
            query += sql.SQL(" union all ") + selected("bench", "samples_10s_late", columns)
        found.append((Table("bench", "samples_10s", tuple(columns), 0), query))
    return found


def _edge(connection: Connection) -> datetime | None:
    """Return the time below which samples have been deleted and the aggregates are the truth, if there is one."""
    if connection.execute("select to_regclass('bench.retention')").fetchone() == (None,):
        return None
    row = connection.execute("select max(edge) filter (where isfinite(edge)) from bench.retention").fetchone()
    return None if row is None else row[0]


def _sequences(connection: Connection) -> dict[str, int]:
    rows = connection.execute(
        """
        select format('%%I.%%I', schemaname, sequencename), last_value from pg_sequences
        where schemaname = any(%s) and last_value is not null order by 1
        """,
        (["bench", MLFLOW],),
    ).fetchall()
    return dict(rows)


def _scripts(database: Database, archive: zipfile.ZipFile, moment: str) -> tuple[str, str]:
    """Write how MLflow's tables are made, whatever its version: those are pg_dump's to know."""
    names = []
    for section in ("pre-data", "post-data"):
        done = subprocess.run(
            [
                str(Programs().folder / "pg_dump"), "--schema=mlflow", f"--section={section}", f"--snapshot={moment}",
                "--no-owner", "--no-privileges", "--no-tablespaces", "--no-comments",
            ],
            env={**os.environ, **database.libpq_environment()},
            capture_output=True,
            check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise StatementFailed(f"pg_dump failed: {done.stderr.decode(errors='replace').strip()}")
        name = f"mlflow/{section}.sql"
        archive.writestr(
            name, b"".join(line for line in done.stdout.splitlines(keepends=True) if not _OPTIONAL.match(line))
        )
        names.append(name)
    before, after = names
    return before, after
