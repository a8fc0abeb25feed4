"""Hostile capsules, in both flavours: they bring their own runs, and change no others."""

from __future__ import annotations

import contextlib
import time
import zipfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np
import psycopg
import pyarrow as pa
import pytest
from psycopg import conninfo, sql
from pyarrow import parquet as pq

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest
from hypergauge.sql.queries.summaries import summaries
from hypergauge.sql.runs import rule_actions, rule_evaluation, run_annotations, tracked_summaries
from hypergauge.sql.runs.selection import select_runs
from hypergauge.sql.schema.flavour import Flavour
from hypergauge.sql.server.database import Connection, Database
from hypergauge.sql.transfer import capsule
from hypergauge.sql.transfer.archive import BadBackup, opened
from hypergauge.sql.transfer.importing import import_capsule
from tests.support.data.backups import OTHER, Empty, altered, rewritten
from tests.support.world import HOST, World

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
    assert import_capsule(writer, file).samples == 600
    with there.session() as owner:
        assert owner.execute("select max(value) from run_samples where quantity = 'load'").fetchone() == (2.0,)
        assert set(staged(owner)) == {*capsule.TABLES, "new_ids"}
        assert set(staged(owner).values()) == {0}


def test_reading_of_an_unknown_metric_is_reported_for_the_capsules_series_alone(
    world: World, flavour: Flavour, empty: Empty, tmp_path: Path
) -> None:
    """Its catalog has another scale, a quantity and a unit of ours, and what labels of a known metric mean."""
    start = time.time() // 600 * 600 - 3600
    world.connection.execute(
        """
        insert into metrics (metric, match, quantity, unit, scale, kind, combine, preference) values
            ('queue_length', '{}', 'load', 'furlongs', 1e9, 'gauge', 'sum', 0),
            ('node_load1', '{"pool": "a"}', 'load', 'furlongs', 1e9, 'gauge', 'sum', 0)
        """
    )
    world.run(start, start + 60)
    times = [start + at for at in range(60)]
    names = [("queue_length", {"queue": "b"}), ("node_load1", {"pool": "a"})]
    world.write(*(world.gauge(metric, times, [7.0] * 60, labels) for metric, labels in names))
    exported = tmp_path / "b.capsule"
    capsule.export(world.connection, select_runs(world.connection, ["20"]), exported)
    there = empty(OTHER[flavour]).open()
    notes = import_capsule(there, exported).notes
    reported = [note for note in notes if note.endswith("is not in the catalog here: it is read as in the capsule, and so in its runs alone")]  # fmt: skip
    assert [note.partition(" ")[0] for note in reported] == ["node_load1", "queue_length"]
    with there.session() as connection:
        theirs = "select metric, unit, max(value) from run_samples group by 1, 2 order by 1"
        assert connection.execute(theirs).fetchall() == [
            ("node_load1", "furlongs", 7e9),
            ("queue_length", "furlongs", 7e9),
        ]
        here = World(there, tmp_path / "there", connection)
        run = here.run(start, start + 60, experiment=7)
        here.write(*(here.gauge(metric, times, [7.0] * 60, labels) for metric, labels in names))
        ours = (
            "select metric, quantity, unit, max(value) from run_samples where run_id = %s group by 1, 2, 3 order by 1"
        )
        assert connection.execute(ours, (run,)).fetchall() == [
            ("node_load1", "load", "processes", 7.0),
            ("queue_length", "queue_length", "", 7.0),
        ]
        connection.execute("select summarise(%s)", (run,))
        shown = {one.quantity: (one.unit, one.max) for one in summaries(connection, [run])}
        assert shown == {"load": ("processes", 7.0), "queue_length": ("", 7.0)}
        # And on, into a third: in a capsule it is one of its own again.
        capsule.export(connection, select_runs(connection, ["20"]), tmp_path / "c.capsule")
        # A later release, or a user, may know it: ours then, beside theirs.
        connection.execute(
            "insert into metrics (metric, quantity, unit, kind, combine) values ('queue_length', 'queue', 'jobs', 'gauge', 'sum')"
        )
        assert connection.execute(theirs + " limit 1").fetchone() == ("node_load1", "furlongs", 7e9)
    third = empty(flavour).open()
    import_capsule(third, tmp_path / "c.capsule")
    with third.session() as connection:
        assert connection.execute("select max(value) from run_samples where metric = 'queue_length'").fetchone() == (
            7e9,
        )


def with_first(changes: Mapping[str, str], rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """Return rows with other values in the first."""
    return [{**rows[0], **changes}, *rows[1:]]


def test_nothing_of_a_capsule_goes_to_what_is_here(file: Path, flavour: Flavour, empty: Empty, tmp_path: Path) -> None:
    there = empty(OTHER[flavour]).open()
    with there.session() as connection:
        here = World(there, tmp_path / "there", connection)
        start = time.time() // 600 * 600 - 3600
        run = here.run(start, start + 300, experiment=7)
        times = [start + at for at in range(300)]
        here.write(here.gauge("node_load1", times, [5.0] * 300))
        shown = "select metric, count(*), max(value) from run_samples where run_id = %s group by 1"
        before = connection.execute(shown, (run,)).fetchall()
        refused = {
            "workloads": {"experiment_id": "7"},
            "runs": {"workload_id": "999"},
            "series": {"metric_id": "999"},
            "run_sets": {"place_id": "999"},
            "places": {"run_id": run},
        }
        for table, changes in refused.items():
            other = altered(file, table, partial(with_first, changes))
            with pytest.raises(BadRequest, match=rf"{table} of it name \w+ that are not in it"):
                import_capsule(there, other)
        for identity in ("", "removed", "a" * 31):
            with pytest.raises(BadRequest, match="not a whole capsule"):
                import_capsule(there, rewritten(file, capsule=identity))
        target = str(here.target("host"))
        import_capsule(there, altered(altered(file, "series", lambda rows: [{**row, "target_id": target} for row in rows]),
                "run_sets", lambda rows: [*rows, {**rows[0], "run_id": run}]))  # fmt: skip
        assert connection.execute(shown, (run,)).fetchall() == before
        assert connection.execute("select count(*) from series where target_id is not null").fetchone() == (1,)
        here.write(here.gauge("node_load1", [start + 299.5], [5.0]))
        assert connection.execute(shown, (run,)).fetchall() == [("node_load1", 301, 5.0)]


def test_rules_request_nothing_for_runs_of_a_capsule(
    file: Path, flavour: Flavour, empty: Empty, tmp_path: Path
) -> None:
    """A host of the same name, a row that wants actions, and an action that was requested and not begun."""
    with zipfile.ZipFile(file) as archive:
        run = archive.read("bench/runs.copy").decode().partition("\t")[0]
    requested = {
        "run_id": run, "rule": "idle_device", "started_at": "2026-01-01", "action": "page", "severity": "warning", "evidence": "{}",
    }  # fmt: skip
    now = datetime.now(UTC).isoformat()
    wanting = altered(
        altered(file, "rule_actions", lambda _: [requested, {**requested, "action": "stop"}]),
        "runs", partial(with_first, {"evaluated": "f", "ended_at": now, "actions": '{"idle_device": ["page"]}'}),
    )  # fmt: skip
    there = empty(OTHER[flavour]).open()
    import_capsule(there, wanting)
    with there.session() as connection:
        assert rule_evaluation.runs_to_evaluate(connection, HOST) == []
        assert rule_actions.requested_actions(connection, HOST) == []
        assert tracked_summaries.untracked(connection, []) == []


def test_what_still_ran_has_ended_when_it_is_imported(
    file: Path, flavour: Flavour, empty: Empty, tmp_path: Path
) -> None:
    open_ended = {"ended_at": r"\N"}
    unended = altered(
        altered(
            altered(file, "runs", partial(with_first, {"status": "running", **open_ended})),
            "workloads", partial(with_first, {"status": "running", **open_ended}),
        ),
        "run_sets", lambda rows: [{**row, **open_ended} for row in rows],
    )  # fmt: skip
    there = empty(OTHER[flavour]).open()
    import_capsule(there, altered(unended, "placements", partial(with_first, open_ended)))
    with there.session() as connection:
        [run] = select_runs(connection, ["20"])
        assert run.started_at is not None
        assert run.ended_at is not None
        assert (run.status, run.reason) == ("failed", "it still ran when it was exported; it ends at its last sample")
        assert (run.ended_at - run.started_at).total_seconds() == 299
        for table in ("workloads", "placements", "run_sets"):
            ended = f"select distinct ended_at from {table}"
            assert connection.execute(ended.encode()).fetchall() == [(run.ended_at,)], table
        assert connection.execute("select status from workloads").fetchall() == [("failed",)]
        assert run_annotations.remove_runs(connection, [run.run_id]) == 600
        assert select_runs(connection, []) == []


def parquet(columns: Mapping[str, pa.Array], times: int) -> bytes:
    """Return a Parquet file with these columns, so many times over: a row group each."""
    table = pa.table(dict(columns))
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, table.schema, compression="zstd") as writer:
        for _ in range(times):
            writer.write_table(table)
    return bytes(sink.getvalue())


def with_part(file: Path, part: bytes, rows: int) -> Path:
    """Return a copy of a capsule with other samples."""
    copy = rewritten(file, parts=[rows])
    with zipfile.ZipFile(copy) as source, zipfile.ZipFile(file.with_name("other.capsule"), "w") as target:
        for name in source.namelist():
            target.writestr(name, part if name == "samples/00000.parquet" else source.read(name), zipfile.ZIP_DEFLATED)
    return file.with_name("other.capsule")


@contextlib.contextmanager
def memory() -> Iterator[pa.MemoryPool]:
    """Yield what counts the memory that Arrow takes meanwhile."""
    before = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(before)
    pa.set_memory_pool(pool)
    try:
        yield pool
    finally:
        pa.set_memory_pool(before)


def test_a_small_file_takes_no_large_memory(file: Path, flavour: Flavour, empty: Empty) -> None:
    there = empty(OTHER[flavour]).open()
    rows = 1_000_000
    zeros = np.zeros(rows, np.int32)
    columns = {
        "time": pa.array(zeros.astype(np.int64), pa.timestamp("us", tz="UTC")),
        "series_id": pa.array(zeros), "runset_id": pa.array(zeros),
        "value": pa.array(zeros.astype(np.float64)), "dt": pa.array(zeros.astype(np.float32)),
    }  # fmt: skip
    many = parquet(columns, 20)
    wide = parquet({**columns, "value": pa.array(["x" * 1000]).take(pa.array(zeros))}, 1)
    assert max(len(many), len(wide)) < 1 << 20
    cases = [
        (many, 600, "has 20000000 samples, its manifest has 600"),
        (many, 20 * rows, "has 20000000 samples, and a part has 1000000 at most"),
        (wide, rows, "has no samples in it: value is string"),
    ]
    for part, count, message in cases:
        with memory() as taken, pytest.raises(BadRequest, match=rf"samples/00000.parquet {message}"):
            import_capsule(there, with_part(file, part, count))
        assert taken.max_memory() < 64 << 20, message


@pytest.mark.parametrize(("name", "size"), [("manifest.json", 17 << 20), ("samples/00000.parquet", 65 << 20)])
def test_a_member_that_would_become_large_is_refused_as_it_is(file: Path, name: str, size: int, tmp_path: Path) -> None:
    with zipfile.ZipFile(file) as source, zipfile.ZipFile(tmp_path / "b.capsule", "w", zipfile.ZIP_DEFLATED) as target:
        for one in source.namelist():
            target.writestr(one, source.read(one) + b" " * (size if one == name else 0))
    assert (tmp_path / "b.capsule").stat().st_size < 1 << 20
    with pytest.raises(BadBackup, match=rf"{name} would take {size >> 20} MiB"), opened(tmp_path / "b.capsule", "capsule"):  # fmt: skip
        pass
