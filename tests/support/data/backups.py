"""Helpers of the tests of backup and restore."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from psycopg import sql

from hypergauge.sql.schema.flavour import Flavour
from hypergauge.sql.server.database import Connection, Database
from hypergauge.sql.transfer.backup import BEHIND_SAMPLES, BELOW_CUTOFF, LEFT_OUT
from tests.support.world import LEVELS

OTHER = {Flavour.POSTGRESQL: Flavour.TIMESCALEDB, Flavour.TIMESCALEDB: Flavour.POSTGRESQL}


SUMS = "sum(n), sum(seconds), sum(area), min(min), max(max), count(distinct bucket)"


Empty = Callable[[Flavour], Database]


def contents(connection: Connection) -> dict[str, list[tuple[object, ...]]]:
    """Return every row of every table of a backup, as text."""
    tables = connection.execute(
        "select schemaname, tablename from pg_tables where schemaname in ('bench', 'bench_internal', 'mlflow')"
        " union select 'bench', 'samples' order by 1, 2"
    ).fetchall()
    answer = {}
    for schema, table in tables:
        if table not in LEFT_OUT | BELOW_CUTOFF | BEHIND_SAMPLES:
            name = sql.Identifier(schema, table)
            row = sql.SQL("select md5(string_agg(md5(t::text), '' order by t::text)), count(*) from {} t").format(name)
            answer[f"{schema}.{table}"] = connection.execute(row).fetchall()
    return answer


def sums(connection: Connection) -> dict[str, list[tuple[object, ...]]]:
    """Return the totals of each aggregate, by series and run set."""
    return {
        relation: [
            tuple(round(float(x), 6) if x is not None else None for x in row)
            for row in connection.execute(
                f"select series_id, runset_id, {SUMS} from {relation} group by 1, 2 order by 1, 2".encode()
            ).fetchall()
        ]
        for relation in LEVELS
    }


def waiting(connection: Connection) -> bool:
    return connection.execute(
        "select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
        " and application_name = 'hypergauge')"
    ).fetchone() == (True,)


def rewritten(file: Path, **changes: object) -> Path:
    """Return a copy of a backup with another manifest."""
    copy = file.with_name("changed")
    with zipfile.ZipFile(file) as source, zipfile.ZipFile(copy, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            if name == "manifest.json":
                content = json.dumps({**json.loads(content), **changes}).encode()
            target.writestr(name, content)
    return copy


def start(database: Database, *words: str | Path, **options: Any) -> subprocess.Popen[str]:
    environment = {**os.environ, "BENCH_DSN": database.dsn, "BENCH_HOME": str(database.settings.home)}
    command = [sys.executable, "-P", "-m", "hypergauge.cli", "db", *map(str, words)]
    return subprocess.Popen(
        command, env=environment, text=True, stderr=subprocess.PIPE, stdout=subprocess.PIPE, **options
    )


def alone(database: Database) -> bool:
    with database.session() as connection:
        return connection.execute(
            "select count(*) from pg_stat_activity where datname = current_database() and backend_type = 'client backend'"
        ).fetchone() == (1,)


def schema_is_there(database: Database) -> bool:
    with database.session() as connection:
        return connection.execute("select to_regclass('bench.runs') is not null").fetchone() == (True,)


def altered(file: Path, table: str, change: Callable[[list[dict[str, str]]], list[dict[str, str]]]) -> Path:
    r"""Return a copy of a capsule with other rows in one table, in COPY's text format."""
    with zipfile.ZipFile(file) as source:
        manifest = json.loads(source.read("manifest.json"))
        [entry] = [one for one in manifest["tables"] if one["name"] == table]
        member = f"{entry['schema']}/{table}.copy"
        lines = source.read(member).decode().splitlines()
        rows = change([dict(zip(entry["columns"], line.split("\t"), strict=True)) for line in lines])
        entry["columns"], entry["rows"] = list(rows[0]), len(rows)
        content = "".join("\t".join(row.values()) + "\n" for row in rows)
        copy = file.with_name(f"altered-{file.name}")
        with zipfile.ZipFile(copy, "w") as target:
            for name in source.namelist():
                if name == "manifest.json":
                    target.writestr(name, json.dumps(manifest))
                else:
                    target.writestr(name, content if name == member else source.read(name))
    return copy
