"""Small worlds in real databases, in each flavour."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from hypergauge.core.config.settings import Settings
from hypergauge.sql.ingest import samples
from hypergauge.sql.ingest.tensors import WatchProblem, store_problems, store_tensors
from hypergauge.sql.schema.flavour import Flavour
from hypergauge.sql.server.database import Database
from hypergauge.sql.transfer.backup import backup
from tests.conftest import own_database
from tests.support.data.backups import Empty
from tests.support.data.tensors import some_tensors
from tests.support.world import World


@pytest.fixture
def world(database: Database, tmp_path: Path) -> Iterator[World]:
    """An empty world in each flavour."""
    with database.connect() as connection:
        yield World(database, tmp_path / "spool", connection)


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
        store_tensors(world.connection, run, *some_tensors(start))
        store_problems(world.connection, run, [WatchProblem("out of memory ü")])
    world.refresh()
    samples.begin_write(world.connection, "f" * 32, [7, 8, 9])
    return world


@pytest.fixture
def file(full: World, tmp_path: Path) -> Path:
    backup(full.database, tmp_path / "file")
    return tmp_path / "file"
