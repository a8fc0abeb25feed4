"""Backup of the whole database in one file, for either flavour. `hypergauge.sql.transfer.archive` defines its form.

The list of tables comes from PostgreSQL's catalog, so the backup includes a new table without a change here. All tables
are read in one snapshot, without blocking writers. Derived data are left out: migrations create the schema, and the
aggregates are computed from samples, except for aggregates of samples that retention has deleted.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Set
from datetime import UTC, datetime
from pathlib import Path

from psycopg import sql

from hypergauge import __version__
from hypergauge.core.errors import NoData
from hypergauge.sql.schema.flavour import Flavour, inspect
from hypergauge.sql.schema.migrate import applied
from hypergauge.sql.schema.schemas import INTERNAL, OURS
from hypergauge.sql.server.database import Connection, Database, StatementFailed
from hypergauge.sql.server.programs import Programs
from hypergauge.sql.transfer.archive import Manifest, Table, writing
from hypergauge.sql.transfer.members import copy_out, selected
from hypergauge.sql.transfer.snapshot import snapshot

__all__ = ["BELOW_CUTOFF", "LEFT_OUT", "MLFLOW", "backup", "definitions", "relations", "sequences"]

# Tables that migrations fill, devices that exist on a host now, which no other database may claim, and tables that are only
# locked.
LEFT_OUT = frozenset(
    {"migrations", "functions_digest", "provisioned_devices", "pack_lock", "packer_lock", "import_lock"}
)
# Tables of each flavour with the aggregates below the raw cutoff; a backup has one member for them, samples_10s.
BELOW_CUTOFF = frozenset({"samples_10s_stored", "samples_1m_stored", "samples_10m_stored", "samples_10s_late"})
# Tables of plain PostgreSQL behind samples; a backup has samples alone.
BEHIND_SAMPLES = frozenset({"unpacked_samples", "packed_samples", "packed_scrapes"})
MLFLOW = "mlflow"

# Lines of a dump that depend on the version and that MLflow's tables do not need: settings, psql commands, and options
# of columns (planner hints, and options of some servers that other servers refuse).
_OPTIONAL = re.compile(
    rb"SET |SELECT pg_catalog\.set_config|\\|ALTER TABLE ONLY [^;]+ ALTER COLUMN [^;]+ SET \([^;]*\);$"
)


def backup(
    database: Database, path: Path, *, replace: bool = False, notify: Callable[[str], None] = lambda _: None
) -> Manifest:
    """Write a backup of `database` to `path`, and return its manifest.

    Raises
    ------
    NoData
        The database has no schema ``bench``.
    BadRequest
        `path` exists, and `replace` is false.
    """
    with database.session() as connection:
        versions = applied(connection)
        if not versions:
            raise NoData("there is no schema `bench` in this database, so nothing to back up")
        server = inspect(connection)
        with writing(path, replace=replace) as archive, snapshot(connection, "share update exclusive") as moment:
            tables = []
            for table, query in relations(connection):
                tables.append(copied := copy_out(connection, archive, table, query))
                if copied.rows >= 100_000:
                    notify(f"{table.schema}.{table.name}: {copied.rows} rows")
            scripts = {}
            if any(table.schema == MLFLOW for table in tables):
                scripts[MLFLOW] = (f"{MLFLOW}/pre-data.sql", f"{MLFLOW}/post-data.sql")
                for name, script in zip(scripts[MLFLOW], definitions(database, moment), strict=True):
                    archive.writestr(name, script)
            manifest = Manifest(
                release=__version__,
                schema_version=max(versions),
                server=server.describe(),
                created_at=datetime.now(UTC).isoformat(timespec="seconds"),
                tables=tuple(tables),
                sequences=sequences(connection),
                scripts=scripts,
            )
            manifest.write(archive)
    return manifest


def relations(connection: Connection, left_out: Set[str] = LEFT_OUT) -> list[tuple[Table, sql.Composable]]:
    """Return our and MLflow's tables without those of `left_out`, each with its query. The row count is set later.

    ``bench.samples`` is one of them in both flavours, and so are the aggregates below the raw cutoff, ``bench.samples_10s``.
    """
    found: list[tuple[Table, sql.Composable]] = []
    for schema, name, columns in connection.execute(
        """
        select n.nspname, c.relname, array_agg(a.attname::text order by a.attnum)
        from pg_class c join pg_namespace n on n.oid = c.relnamespace
        join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
        where (c.relkind in ('r', 'p') and not c.relispartition or c.oid = to_regclass('bench.samples')) and n.nspname = any(%s)
        group by 1, 2 order by 1, 2
        """,
        ([*OURS, MLFLOW],),
    ).fetchall():
        if schema in OURS and (name in left_out | BELOW_CUTOFF | BEHIND_SAMPLES):
            continue
        query = selected(schema, name, columns)
        if (schema, name) == ("bench", "samples"):
            # The order of the columnstore, so that a restore can compress samples as they arrive.
            query += sql.SQL(" order by series_id, time")
        found.append((Table(schema, name, tuple(columns), 0), query))
    if (cutoff := _cutoff(connection)) is not None:
        # A restore computes the coarser levels from this one.
        columns = ["bucket", "series_id", "runset_id", "n", "seconds", "area", "min", "max"]
        query = selected("bench", "samples_10s", columns) + sql.SQL(" where bucket < {}").format(sql.Literal(cutoff))
        if inspect(connection).flavour is Flavour.TIMESCALEDB:
            query += sql.SQL(" union all ") + selected(INTERNAL, "samples_10s_late", columns)
        found.append((Table("bench", "samples_10s", tuple(columns), 0), query))
    return found


def _cutoff(connection: Connection) -> datetime | None:
    """Return the time below which only aggregates remain, ``None`` if retention has deleted no samples."""
    if connection.execute("select to_regclass('bench_internal.retention')").fetchone() == (None,):
        return None
    row = connection.execute(
        "select max(raw_cutoff) filter (where isfinite(raw_cutoff)) from bench_internal.retention"
    ).fetchone()
    return None if row is None else row[0]


def sequences(connection: Connection) -> dict[str, int]:
    """Return the last value of each sequence that was used, by qualified name."""
    rows = connection.execute(
        """
        select format('%%I.%%I', schemaname, sequencename), last_value from pg_sequences
        where schemaname = any(%s) and last_value is not null order by 1
        """,
        ([*OURS, MLFLOW],),
    ).fetchall()
    return dict(rows)


def definitions(database: Database, moment: str) -> tuple[bytes, bytes]:
    """Return the statements that create MLflow's tables, before and after their rows, independent of MLflow's version.

    `moment` is the name of a snapshot. pg_dump reads the definitions.
    """
    before, after = (_dumped(database, moment, section) for section in ("pre-data", "post-data"))
    return before, after


def _dumped(database: Database, moment: str, section: str) -> bytes:
    done = subprocess.run(
        [
            str(Programs().folder / "pg_dump"), f"--schema={MLFLOW}", f"--section={section}", f"--snapshot={moment}",
            "--no-owner", "--no-privileges", "--no-tablespaces", "--no-comments",
        ],
        env={**os.environ, **database.libpq_environment()},
        capture_output=True,
        check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise StatementFailed(f"pg_dump failed: {done.stderr.decode(errors='replace').strip()}")
    return b"".join(line for line in done.stdout.splitlines(keepends=True) if not _OPTIONAL.match(line))
