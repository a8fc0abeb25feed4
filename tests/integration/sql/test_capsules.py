"""Capsules: runs of one database in another, of either flavour, with the same answers."""

from __future__ import annotations

import time
import zipfile
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hypergauge.core.errors import BadRequest
from hypergauge.insight.comparison import neighbours
from hypergauge.insight.comparison.comparison import compare
from hypergauge.sql.ingest.software import SpanRecord, store_spans
from hypergauge.sql.maintenance import aggregates
from hypergauge.sql.runs.selection import select_runs
from hypergauge.sql.schema.flavour import Flavour
from hypergauge.sql.server.database import Connection, Database
from hypergauge.sql.transfer import capsule
from hypergauge.sql.transfer.archive import opened
from hypergauge.sql.transfer.importing import Imported, import_capsule
from tests.support.data.backups import OTHER, Empty
from tests.support.data.run_answers import answers, rounded, rows, sums
from tests.support.waiting import HUNG_SECONDS, wait_for
from tests.support.world import LEVELS, World

pytestmark = pytest.mark.flavours

DAY = 86_400.0


def export(connection: Connection, path: Path, *selectors: str) -> Path:
    capsule.export(connection, select_runs(connection, selectors, every_attempt=True), path)
    return path


@pytest.fixture
def measured(full: World) -> World:
    """The full world, whose runs have reported all that a run can report, and where a second target gives the host's load as well."""
    for run, start in rows(
        full.connection, "select run_id, extract(epoch from started_at)::float8 from runs order by started_at, 1"
    ):
        store_spans(
            full.connection,
            run,
            [
                SpanRecord(f"s{at}", None, "epoch ü", "epoch", at, start + at, start + at + 1, 17, "main")
                for at in range(5)
            ],
        )
        full.connection.execute(
            "insert into rule_firings values (%s, 'idle', to_timestamp(%s), null, 'warning', '{\"share\": 0.5}')",
            (run, start),
        )
        full.connection.execute(
            "insert into highlights values (%s, to_timestamp(%s), to_timestamp(%s), 'training', 'training: ü', 0.5)",
            (run, start, start + 9),
        )
        full.connection.execute("update runs set reason = %s where run_id = %s", ("E\\ \t", run))
        full.write(
            full.gauge("node_load1", [start + at + 0.5 for at in range(100)], [9.0] * 100, {}, "node_exporter"),
            full.gauge(
                "bench_process_cpu_seconds_total", [start + at for at in range(300)], [1.5] * 300, {"run_id": run}
            ),
        )
    full.connection.execute("select summarise(run_id) from runs")
    full.refresh()
    return full


def test_a_journey_through_the_other_flavour_and_back_loses_nothing(
    measured: World, flavour: Flavour, empty: Empty, tmp_path: Path
) -> None:
    expected = answers(measured.connection, "20")
    assert len(expected["summary"]) > 20
    assert expected["samples"][0][1] > 3 * 2400
    there, back = empty(OTHER[flavour]).open(), empty(flavour).open()
    export(measured.connection, tmp_path / "one.capsule", "20")
    samples = rows(measured.connection, "select count(*) from samples where runset_id > 0")[0][0]
    assert import_capsule(there, tmp_path / "one.capsule") == Imported((20,), 6, 0, samples)
    with there.session() as connection:
        assert answers(connection, "20") == expected
        export(connection, tmp_path / "two.capsule", "20")
    assert import_capsule(back, tmp_path / "two.capsule").samples == samples
    with back.session() as connection:
        assert answers(connection, "20") == expected


def test_a_second_import_changes_nothing(measured: World, flavour: Flavour, empty: Empty, tmp_path: Path) -> None:
    export(measured.connection, tmp_path / "all.capsule", "20")
    there = empty(OTHER[flavour]).open()
    import_capsule(there, tmp_path / "all.capsule")
    with there.session() as connection:
        before = _counts(connection)
    assert import_capsule(there, tmp_path / "all.capsule") == Imported((), 0, 6, 0)
    assert import_capsule(measured.database, tmp_path / "all.capsule") == Imported((), 0, 6, 0)
    with there.session() as connection:
        assert _counts(connection) == before


def test_a_deadlock_is_waited_out(measured: World, flavour: Flavour, empty: Empty, tmp_path: Path) -> None:
    export(measured.connection, tmp_path / "all.capsule", "20")
    there = empty(flavour).open()
    with ThreadPoolExecutor(1) as pool, there.connect() as other, there.connect() as observer:
        with other.transaction():  # as a job of TimescaleDB's, which has chunks in its hands
            other.execute("set local deadlock_timeout = '1h'; lock table samples in share mode")
            importing: Future[Imported] = pool.submit(import_capsule, there, tmp_path / "all.capsule")
            waits = (
                "select from pg_stat_activity where backend_type = 'client backend' and wait_event_type = 'Lock'"
                " and datname = current_database()"
            )
            wait_for(lambda: observer.execute(waits).fetchone() is not None, "that it waits")
            other.execute("lock table runs in share mode")
        assert importing.result(HUNG_SECONDS).runs == 6


def test_what_comes_later_joins_what_is_here(measured: World, flavour: Flavour, empty: Empty, tmp_path: Path) -> None:
    expected = {which: answers(measured.connection, which) for which in ("20/1/1", "20/3", "20/10")}
    export(measured.connection, tmp_path / "some.capsule", "20/1/1", "20/3")
    export(measured.connection, tmp_path / "all.capsule", "20")
    there = empty(OTHER[flavour]).open()
    assert import_capsule(there, tmp_path / "some.capsule").runs == 3
    later = import_capsule(there, tmp_path / "all.capsule")
    assert (later.runs, later.here) == (3, 3)
    with there.session() as connection:
        for which in ("20/3", "20/10"):
            assert answers(connection, which) == expected[which]
        # Apart from who its neighbour was: they came one after the other.
        alone = answers(connection, "20/1/1")
        for what in ("list", "summary", "samples", "quality", "samples_10s"):
            assert alone[what] == expected["20/1/1"][what]


def _counts(connection: Connection) -> dict[str, int]:
    tables = [*capsule.TABLES, "samples", "batches", "retag_queue", "targets"]
    return {name: rows(connection, f"select count(*) from {name}")[0][0] for name in tables}


def test_what_is_measured_here_stays_apart_from_it(
    measured: World, flavour: Flavour, empty: Empty, tmp_path: Path
) -> None:
    """The same host, GPU, exporter and moments in both databases, and a running run here."""
    expected = answers(measured.connection, "20")
    export(measured.connection, tmp_path / "all.capsule", "20")
    there = empty(OTHER[flavour]).open()
    with there.session() as connection:
        here = World(there, tmp_path / "there", connection)
        start = time.time() // 600 * 600 - 3600
        run = here.run(start, experiment=7, gpu="GPU-1")
        times = [start + at for at in range(1200)]
        here.write(
            here.gauge("node_load1", times, [5.0] * 1200),
            here.gauge("DCGM_FI_DEV_POWER_USAGE", times, [100.0] * 1200, {"UUID": "GPU-1"}),
        )
        before = rows(connection, "select * from run_samples where run_id = %s order by metric, time", run)
        fleet = _of_hosts(connection)
        assert all(fleet)
        import_capsule(there, tmp_path / "all.capsule")
        assert answers(connection, "20") == expected
        assert _of_hosts(connection) == fleet
        # Its sets are made anew from its beginning on, and a scrape comes.
        here.run(start + 60, start + 90, experiment=7, position=2, gpu="GPU-1")
        here.end(run, start, start + 3000)
        here.write(here.gauge("node_load1", [start + 1201.0], [5.0]))
        assert answers(connection, "20") == expected
        after = rows(connection, "select * from run_samples where run_id = %s order by metric, time", run)
        assert len(after) == len(before) + 1
        assert rows(connection, "select distinct value from run_samples where run_id = %s and metric = 'node_load1'", run) == [(5.0,)]  # fmt: skip


def _of_hosts(connection: Connection) -> list[list[tuple[Any, ...]]]:
    """Return what dashboards show of hosts and GPUs."""
    span = "now() - interval '20 d', now() - interval '1 s'"
    return [
        rows(connection, f"select time, device, runs from occupancy({span}) order by 1, 2"),
        rounded(rows(connection, f"select host, device, joules from energy({span}) order by 1, 2")),
        rounded(
            rows(connection, f"select * from series_chart(array['gpu_power'], {span}, 3600000, 'device') order by 1, 2")
        ),
    ]


def test_other_runs_are_counted_without_their_names(
    world: World, flavour: Flavour, empty: Empty, tmp_path: Path
) -> None:
    start = time.time() // 600 * 600 - 3600
    mine = world.run(start, start + 600, gpu="GPU-1", name="mine")
    other = world.run(start + 100, start + 200, experiment=21, gpu="GPU-1", name="secret")
    world.run(start + 300, start + 310, experiment=22, name="on the host alone")
    times = [start + at for at in range(600)]
    world.write(
        world.gauge("DCGM_FI_DEV_POWER_USAGE", times, [250.0] * 600, {"UUID": "GPU-1"}),
        world.gauge("DCGM_FI_DEV_FB_USED", [start + 700.0], [1.0], {"UUID": "GPU-1", "pod": "secret"}),
        world.gauge("bench_process_threads", times[100:200], [7.0] * 100, {"run_id": other}),
    )
    written = capsule.export(world.connection, select_runs(world.connection, ["20"]), tmp_path / "mine.capsule")
    assert written.notes[0] == "2 other runs ran beside them; the capsule has only their number"
    with zipfile.ZipFile(tmp_path / "mine.capsule") as archive:
        content = b"".join(archive.read(name) for name in archive.namelist())
    assert b"secret" not in content
    assert other.encode() not in content
    there = empty(OTHER[flavour]).open()
    assert import_capsule(there, tmp_path / "mine.capsule").samples == 600
    with there.session() as connection:
        assert rows(connection, "select shared from run_quality") == [(True,)]
        scopes = "select scope, count(*) from run_samples group by 1 order by 1"
        assert rows(connection, scopes) == [("device", 100), ("instance", 500)]
        found = compare(connection, ["20"])
        changes = neighbours.of_comparison(connection, found)
        assert [(one.at, one.run, one.what, one.status) for one in changes[mine]] == [
            (100.0, "another run", "began", None),
            (200.0, "another run", "ended", None),
        ]
        # And so on, from there.
        export(connection, tmp_path / "again.capsule", "20")
    back = empty(flavour).open()
    import_capsule(back, tmp_path / "again.capsule")
    with back.session() as connection:
        assert neighbours.of_comparison(connection, compare(connection, ["20"])) == changes


@pytest.mark.parametrize("partly", [False, True])
def test_without_its_raw_samples_a_run_has_its_buckets(
    measured: World, flavour: Flavour, empty: Empty, tmp_path: Path, *, partly: bool
) -> None:
    # A run to be kept, that shared some of its time with another: what they share stays.
    measured.connection.execute("update runs set keep = %s and position = 2", (partly,))
    aggregates.keep_raw(measured.connection, 5)
    aggregates.maintain(measured.connection)
    expected = answers(measured.connection, "20")
    written = capsule.export(measured.connection, select_runs(measured.connection, ["20"]), tmp_path / "all.capsule")
    # TimescaleDB keeps the days of a run that is to be kept.
    all_there = partly and flavour is Flavour.TIMESCALEDB
    assert any("raw samples from before" in note for note in written.notes) is not all_there
    there = empty(OTHER[flavour]).open()
    import_capsule(there, tmp_path / "all.capsule")
    with there.session() as connection:
        found = answers(connection, "20")
        for what in ("list", "quality", "summary", "compare by run", "compare by workload"):
            assert found[what] == expected[what], what
        for what in (*LEVELS, "chart of 10000 ms", "chart of 60000 ms"):
            assert _without_counts(found[what]) == pytest.approx(_without_counts(expected[what])), what


def _without_counts(rows: list[tuple[Any, ...]]) -> list[Any]:
    """Return all values of rows, less the numbers of samples: a bucket has three of them at most."""
    return [x for row in rows for x in row if isinstance(x, float)]


def test_old_runs_come_to_a_database_that_keeps_aggregates_alone(
    measured: World, flavour: Flavour, empty: Empty, tmp_path: Path
) -> None:
    expected = answers(measured.connection, "20")
    export(measured.connection, tmp_path / "all.capsule", "20")
    there = empty(OTHER[flavour]).open()
    with there.session() as connection:
        aggregates.keep_raw(connection, 5)
        aggregates.maintain(connection)
        brought = import_capsule(there, tmp_path / "all.capsule")
        assert [note.split(",")[0] for note in brought.notes] == [
            f"raw samples from before {time.strftime('%Y-%m-%d', time.gmtime(time.time() - 5 * DAY))} are not kept here"
        ]
        for _ in range(2):
            for relation in LEVELS:
                assert sums(connection, relation, [run.run_id for run in select_runs(connection, ["20"])]) == expected[relation]  # fmt: skip
            aggregates.maintain(connection)
        assert answers(connection, "20")["summary"] == expected["summary"]


def test_running_runs_are_refused_and_those_that_never_began_left_out(world: World, tmp_path: Path) -> None:
    start = time.time() - 60
    world.run(start, position=1)
    world.run(start, start + 20, position=2)
    runs = select_runs(world.connection, ["20"])
    with pytest.raises(BadRequest, match="20/1/1 still runs, and a capsule holds runs that have ended"):
        capsule.export(world.connection, runs, tmp_path / "a.capsule")
    world.connection.execute("update runs set started_at = null, status = 'pending' where position = 1")
    runs = select_runs(world.connection, ["20"])
    assert (
        capsule.export(world.connection, runs, tmp_path / "a.capsule").notes[0] == "left out, since not begun: 20/1/1"
    )
    with pytest.raises(BadRequest, match="20/1/1 has not begun: there is nothing to export"):
        capsule.export(world.connection, runs[:1], tmp_path / "b.capsule")
    assert not (tmp_path / "b.capsule").exists()
    with opened(tmp_path / "a.capsule", "capsule") as (_, manifest):
        assert {table.name: table.rows for table in manifest.tables}["runs"] == 1


def test_every_table_with_runs_is_in_a_capsule(database: Database) -> None:
    with database.session() as connection:
        tables = rows(
            connection,
            "select table_name from information_schema.columns join information_schema.tables using (table_schema, table_name)"
            " where table_schema = 'bench' and column_name = 'run_id' and table_type = 'BASE TABLE'",
        )
    of_this_site = {"tracked_summaries"}  # what its MLflow has
    assert {name for (name,) in tables} - of_this_site <= set(capsule.TABLES)
