"""Memory of exports and imports, independent of the number of samples."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hypergauge.core.config.settings import Settings
from hypergauge.sql.server.database import Database
from tests.conftest import own_database
from tests.support.world import World

FEW, MANY = 600_000, 1_800_000
SERIES = 60  # each with a sample more, by which it was opened
MOST = 30 * 1024  # KiB that they may differ by
# The most that the process has had by its end. (The kernel's value for a child counts its parent's before its start.)
_COMMAND = """
import atexit, re, sys
from pathlib import Path
atexit.register(lambda: print(re.search(r"VmHWM:.*", Path("/proc/self/status").read_text())[0], file=sys.stderr))
from hypergauge.cli import main
main()
"""


@pytest.fixture(scope="module")
def filled(postgresql_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """A database with two runs: 1/1/1 has few samples, 1/2/1 three times as many."""
    folder = tmp_path_factory.mktemp("filled")
    with (
        own_database(postgresql_dsn, timescaledb=False) as dsn,
        Database(Settings(home=folder, dsn=dsn)) as database,
        database.session() as connection,
    ):
        world = World(database, folder / "spool", connection)
        start = time.time() // 600 * 600 - 200_000
        for workload, count in ((1, FEW), (2, MANY)):
            begin = start + 50_000 * workload
            world.run(begin, begin + count // SERIES + 1, experiment=1, workload=workload)
            if workload == 1:
                world.write(*(world.gauge("queue_length", [begin], [0.0], {"queue": str(at)}) for at in range(SERIES)))
            connection.execute(
                """
                insert into samples select to_timestamp(%s) + n * interval '1 s', series_id, tag_at(place_id, to_timestamp(%s)),
                                           (n * 7919 + series_id) %% 1009 / 8.0, 1
                from generate_series(1, %s) n, series
                """,
                (begin, begin, count // SERIES),
            )
        connection.execute("delete from retag_queue")
        connection.execute("select summarise(run_id) from runs")
        connection.execute("vacuum analyze")
        yield database


def peak(database: Database, *words: str | Path) -> int:
    """Run the command, and return the most memory that it has had, in KiB."""
    others = {name: value for name, value in os.environ.items() if not name.startswith(("BENCH_", "MLFLOW_"))}
    done = subprocess.run(
        [sys.executable, "-P", "-c", _COMMAND, *map(str, words)],
        env={**others, **database.settings.environment()}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = re.search(r"VmHWM:\s+(\d+) kB", done.stderr)
    assert found is not None
    return int(found[1])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.parquet", "a.csv", "a.csv.gz", "a.capsule"])
def test_three_times_the_samples_take_no_more_memory(
    filled: Database, postgresql_dsn: str, tmp_path: Path, name: str
) -> None:
    few = peak(filled, "export", "1/1", "-o", tmp_path / name)
    many = peak(filled, "export", "1/2", "-o", tmp_path / f"many-{name}")
    assert many - few < MOST
    if name == "a.capsule":
        with own_database(postgresql_dsn, timescaledb=False) as dsn:
            there = Database(Settings(home=tmp_path, dsn=dsn)).open()
            few, many = (peak(there, "import", tmp_path / file) for file in (name, f"many-{name}"))
            assert many - few < MOST
            with there.session() as connection:
                assert connection.execute("select count(*) from samples").fetchone() == (FEW + MANY + SERIES,)
