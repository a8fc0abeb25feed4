"""Capsules of whoever wrote them: they bring their own runs, and change nothing of what is here. In both flavours."""

from __future__ import annotations

import time
from pathlib import Path

import psycopg
import pytest
from psycopg import conninfo, sql

from bench.config import Settings
from sql import capsule
from sql.database import Connection, Database
from sql.flavour import Flavour
from sql.intake import take_in
from sql.selection import select_runs
from tests.backups import OTHER, Empty
from tests.world import World

pytestmark = pytest.mark.flavours


@pytest.fixture
def file(world: World, tmp_path: Path) -> Path:
    """A capsule of one run with a known and an unknown metric."""
    start = time.time() // 600 * 600 - 3600
    world.run(start, start + 300)
    times = [start + at for at in range(300)]
    world.write(
        world.gauge("node_load1", times, [2.0] * 300),
        world.gauge("queue_length", times, [7.0] * 300),
    )
    world.connection.execute("select summarise(run_id) from runs")
    capsule.export(world.connection, select_runs(world.connection, ["20"]), tmp_path / "a.capsule")
    return tmp_path / "a.capsule"


def staged(connection: Connection) -> dict[str, int]:
    """Return how many rows there are in each table in which capsules are laid."""
    names = connection.execute("select tablename from pg_tables where schemaname = 'bench_staging'").fetchall()
    count = sql.SQL("select count(*) from bench_staging.{}")
    return {
        name: row[0] for (name,) in names for row in connection.execute(count.format(sql.Identifier(name))).fetchall()
    }


def test_a_writer_imports_with_no_right_to_make_tables(
    file: Path, flavour: Flavour, empty: Empty, tmp_path: Path
) -> None:
    there = empty(OTHER[flavour]).open()
    with there.session() as owner:
        database = sql.Identifier(owner.info.dbname)
        owner.execute(sql.SQL("revoke all on database {} from public").format(database))
        owner.execute(sql.SQL("grant connect on database {} to bench_writer").format(database))
    writer = Database(
        Settings(home=tmp_path, dsn=conninfo.make_conninfo(there.dsn, options="-crole=bench_writer"))
    ).open()
    with writer.connect() as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("create temp table mine ()")
    assert take_in(writer, file).samples == 600
    with there.session() as owner:
        assert owner.execute("select max(value) from run_samples where quantity = 'load'").fetchone() == (2.0,)
        assert set(staged(owner)) == {*capsule.TABLES, "new_ids"}
        assert set(staged(owner).values()) == {0}
