"""Backup and restore: everything, between the flavours, or nothing at all."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from psycopg import sql

from bench.config import Settings
from sql import samples
from sql.aggregates import LEVELS, refresh
from sql.backup import LEFT_OUT, backup
from sql.database import Connection, Database
from sql.flavour import Flavour
from sql.restore import restore
from tests.conftest import own_database
from tests.world import World

OTHER = {Flavour.POSTGRESQL: Flavour.TIMESCALEDB, Flavour.TIMESCALEDB: Flavour.POSTGRESQL}
SUMS = "sum(n), sum(seconds), sum(area), min(min), max(max), count(*)"

Empty = Callable[[Flavour], Database]


@pytest.fixture
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Empty]:
    """Give empty databases, without a schema, of either flavour."""
    with ExitStack() as stack:

        def make(flavour: Flavour) -> Database:
            server = request.getfixturevalue(f"{flavour}_dsn")
            dsn = stack.enter_context(own_database(server, timescaledb=flavour is Flavour.TIMESCALEDB))
            return Database(Settings(home=tmp_path, dsn=dsn))

        yield make


@pytest.fixture
def full(world: World) -> World:
    """A world with runs that share a host and a GPU, samples in several days, late ones, and nulls."""
    now = time.time() // 600 * 600
    for day in (9, 2, 0):
        start = now - day * 86_400 - 3600
        run = world.run(start, start + 900, workload=day + 1, gpu="GPU-1")
        world.run(start + 300, start + 900, workload=day + 1, position=2, gpu="GPU-1", name="wide ü \t \\ 'quoted'")
        times = [start + at for at in range(1200)]
        world.write(
            world.gauge("node_load1", times, [at % 7 + 0.1 for at in range(1200)]),
            world.gauge("DCGM_FI_DEV_POWER_USAGE", times[::3], [250.3] * 400, {"UUID": "GPU-1"}),
            world.gauge("bench_process_threads", times[:900], [4.0] * 450 + [float("nan")] * 450, {"run_id": run}),
        )
        world.connection.execute("select summarise(run_id) from runs")
        world.connection.execute(
            "insert into software_metrics select %s, 'loss', n, to_timestamp(%s + n), n, 1 / n::float8"
            " from generate_series(1, 50) n",
            (run, start),
        )
    refresh(world.connection, now - 10 * 86_400, now)
    samples.claim_batches(world.connection, "f" * 32, [7, 8, 9])
    return world


def contents(connection: Connection) -> dict[str, list[tuple[object, ...]]]:
    """Return every row of every table that is to be in a backup, as text."""
    tables = connection.execute(
        "select schemaname, tablename from pg_tables where schemaname in ('bench', 'mlflow') order by 1, 2"
    ).fetchall()
    answer = {}
    for schema, table in tables:
        if table not in LEFT_OUT:
            name = sql.Identifier(schema, table)
            row = sql.SQL("select md5(string_agg(md5(t::text), '' order by t::text)), count(*) from {} t").format(name)
            answer[f"{schema}.{table}"] = connection.execute(row).fetchall()
    return answer


def sums(connection: Connection) -> dict[str, list[tuple[object, ...]]]:
    """Return what each aggregate adds up to, by series and run set."""
    return {
        relation: [
            tuple(round(float(x), 6) if x is not None else None for x in row)
            for row in connection.execute(
                f"select series_id, runset_id, {SUMS} from {relation} group by 1, 2 order by 1, 2".encode()
            ).fetchall()
        ]
        for relation, _ in LEVELS
    }


def without_own_tables(found: dict[str, list[tuple[object, ...]]]) -> dict[str, list[tuple[object, ...]]]:
    """Leave out what one flavour has and the other has not."""
    return {name: rows for name, rows in found.items() if not name.endswith("_stored")}


def test_a_round_trip_through_the_other_flavour_brings_everything_back(
    full: World, flavour: Flavour, empty: Empty, tmp_path: Path
) -> None:
    there, back = empty(OTHER[flavour]), empty(flavour)
    backup(full.database, tmp_path / "one.backup")
    restore(there, tmp_path / "one.backup")
    backup(there, tmp_path / "two.backup")
    restore(back, tmp_path / "two.backup")
    expected, added = contents(full.connection), sums(full.connection)
    summary = full.connection.execute(
        "select * from run_summary order by run_id, quantity, scope, metric, device"
    ).fetchall()
    assert len(summary) > 20
    assert expected["bench.samples"][0][1] == 3 * (1200 + 400 + 900)
    for database in (there, back):
        with database.session() as connection:
            assert without_own_tables(contents(connection)) == without_own_tables(expected)
            assert sums(connection) == added
            assert (
                connection.execute(
                    "select * from run_summary order by run_id, quantity, scope, metric, device"
                ).fetchall()
                == summary
            )
            # Identities go on where they were, and placements make run sets again.
            other = World(database, tmp_path / uuid.uuid4().hex, connection)
            other.run(time.time(), experiment=21)
            other.write(other.gauge("node_load1", [time.time()], [1.0]))
            assert connection.execute(
                "select count(*) from samples where runset_id > 0 and time > now() - interval '1 min'"
            ).fetchone() == (1,)
