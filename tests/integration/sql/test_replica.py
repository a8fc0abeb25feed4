"""Reads from a streaming replica: every command, a lag, and a bad ``BENCH_READ_DSN``."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest, BenchError, DatabaseUnavailable
from hypergauge.insight import frame, summary
from hypergauge.insight.watch import watch
from hypergauge.sql.ingest.software import SoftwareMetric, SpanRecord, store_software_metrics, store_spans
from hypergauge.sql.runs.experiments import lock_experiment
from hypergauge.sql.schema.flavour import Flavour
from hypergauge.sql.schema.migrate import MigrationFailed
from hypergauge.sql.server import replica
from hypergauge.sql.server.database import Database, StatementFailed
from hypergauge.sql.server.reader import reader
from tests.conftest import Command, NewFolder
from tests.support.servers.replicas import Replicated, replicated
from tests.support.world import World

READING = [
    "status", "doctor", "list", "list 20", "metrics", "metrics 20", "compare 20", "compare 20 --by workload",
    "compare 20 --by row --attempts all", "compare 20/1 --align step", "compare 20 --target loss<=0.5",
    "highlights 20/1/1", "highlights 20/3/1", "interference 20", "watch 20/1", "rules replay 20",
    "plot 20/1 -m loss -m load -o plot.svg", "plot 20/1 -m load -o plot.html --kind lines",
    "plot 20/1 -m load -o bars.png --kind bars", "report 20 -o report.html", "share 20/1 -m load -o view.json",
    "open view.json -o page.html", "open view.json --grafana", "export 20 -o samples.parquet", "export 20 -o samples.csv.gz",
    "export 20/1 -o all.capsule", "export 20/1 --trace -o trace.json",
]  # fmt: skip


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(Flavour.POSTGRESQL, id="postgresql"),
        pytest.param(Flavour.TIMESCALEDB, id="timescaledb", marks=pytest.mark.timescale),
    ],
)
def pair(request: pytest.FixtureRequest, new_folder: NewFolder) -> Iterator[Replicated]:
    """A primary with a few runs, and its replica."""
    with replicated(request.param, new_folder() / "replicated") as made:
        with made.database.connect() as connection:
            world = World(made.database, new_folder() / "spool", connection)
            now = time.time() // 10 * 10
            for position in (1, 2):
                _train(world, world.run(now - 400, now - 100, position=position), now - 400)
            _train(world, world.run(now - 520, now - 420, workload=2), now - 520)
            _train(world, world.run(now - 50, workload=3), now - 50)
            world.refresh()
        made.catch_up()
        yield made


@pytest.fixture
def bench(command: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Give the command, to be called with settings and words: its status, and what it writes."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)

    def run(settings: Settings, *words: str) -> tuple[int, str, str]:
        for name in ("BENCH_DSN", "BENCH_READ_DSN"):
            monkeypatch.delenv(name, raising=False)
        for name, value in settings.environment().items():
            monkeypatch.setenv(name, value)
        return command(*words)

    return run


def test_every_command_that_reads_queries_the_replica_alone(pair: Replicated, bench: Command) -> None:
    alone = replace(pair.settings, dsn="host=/nowhere")
    answers = {}
    for words in READING:
        status, answers[words], error = bench(alone, *words.split(), "--json")
        assert (words, status, error) == (words, 0, "")
    nowhere = replace(pair.settings, dsn=None)
    assert bench(nowhere, "list")[0] == 0
    status, _, error = bench(nowhere, "stop", "20")
    assert status == 2
    assert "BENCH_READ_DSN is set without BENCH_DSN" in error
    assert not pair.settings.database_dir.exists()  # no server of our own was started for it
    shown = json.loads(answers["status"])
    assert shown["database"]["up"] is False
    assert {"up": True, "standby": True, "following": True}.items() <= shown["reads"].items()
    # The primary writes to its log by itself too, and a query may come between that and its replay.
    assert 0 <= shown["reads"]["behind_seconds"] < replica._SECONDS
    assert [run["run"] for run in shown["runs"]] == ["20/3/1"]
    assert len(json.loads(answers["compare 20"])["runs"]) == 4
    assert {one["quantity"] for one in json.loads(answers["metrics"])} >= {"load"}


def test_data_frames_are_read_from_it(pair: Replicated) -> None:
    settings = replace(pair.settings, dsn=None)
    assert set(frame("20/1", settings=settings)["run"]) == {"20/1/1", "20/1/2"}
    assert set(summary("20/3", settings=settings)["quantity"]) >= {"load"}  # of a running run: computed


def test_what_is_read_is_not_written(pair: Replicated) -> None:
    for settings in (pair.settings, replace(pair.settings, read_dsn=None)):
        with (
            Database(settings, reading=True) as database,
            pytest.raises(StatementFailed, match="read-only transaction"),
            database.session() as connection,
        ):
            connection.execute("delete from runs")


@pytest.mark.slow
def test_a_replica_that_is_behind_is_reported(
    pair: Replicated, bench: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica, "_SECONDS", 0.5)
    with pair.paused(), pair.database.connect() as connection:
        world = World(pair.database, Path("unused"), connection)
        started = time.time() - 30
        run_id = world.run(started, experiment=22, workload=9)
        ended = time.monotonic()
        time.sleep(1)
        for words in ("compare 20", "list", "plot 20/1 -m load -o plot.svg", "report 20 -o report.html"):
            status, _, error = bench(pair.settings, *words.split())
            assert status == 0
            assert "The replica is" in error
            assert "s behind" in error
        status, output, _ = bench(pair.settings, "compare", "22/9")
        assert status == 2  # which has not arrived
        seconds = json.loads(bench(pair.settings, "status", "--json")[1])["reads"]["behind_seconds"]
        assert seconds > time.monotonic() - ended - 0.5
        assert "s behind" in bench(pair.settings, "status")[1]
        findings = json.loads(bench(pair.settings, "doctor", "--json")[1])
        assert [one["ok"] for one in findings if one["what"].startswith("reads")] == [False]
        with pytest.warns(UserWarning, match="The replica is .* behind"):
            frame("20/1", settings=pair.settings)
        with Database(pair.settings, reading=True) as database:
            assert "behind" in (next(watch(database, ["20"])).behind or "")
        world.end(run_id, started, time.time())
        while (pair.replica.execute("select bench.replica_behind()").fetchone() or (0,))[0] <= 5:
            time.sleep(0.1)
        notices = "select code from bench_internal.chart_notice(array(select run_id from bench.runs), '{load}')"
        assert ("replica_behind",) in pair.replica.execute(notices).fetchall()
        page = "select code from bench_dashboard.run_notice(%s, now(), now())"
        assert ("replica_behind",) in pair.replica.execute(page, (run_id,)).fetchall()
    status, output, error = bench(pair.settings, "compare", "22/9")
    assert (status, error) == (0, "")
    assert "finished" in output


def test_a_replica_that_has_lost_its_primary_is_reported(pair: Replicated, bench: Command) -> None:
    row = pair.replica.execute("show primary_conninfo").fetchone()
    assert row is not None

    def follow(whom: str) -> None:
        pair.replica.execute(sql.SQL("alter system set primary_conninfo = {}").format(whom))
        pair.replica.execute("select pg_reload_conf()")
        while replica.replication(pair.replica).following != bool(whom):
            time.sleep(0.05)

    pair.replica.execute("set search_path = bench, bench_internal, bench_dashboard, public")
    follow("")
    try:
        assert "behind, and has lost its primary" in " ".join(bench(pair.settings, "status")[1].split())
    finally:
        follow(str(row[0]))
        pair.catch_up()


def test_an_experiment_is_watched_until_the_replica_has_seen_its_last_run(pair: Replicated) -> None:
    with pair.database.connect() as connection, Database(pair.settings, reading=True) as database:
        world = World(pair.database, Path("unused"), connection)
        now = time.time()
        world.run(now - 20, now - 10, experiment=21)
        pair.catch_up()
        with pair.database.connect() as scheduler:
            lock_experiment(scheduler, 21)
            looks = watch(database, ["21"])
            assert not next(looks).over
            with pair.paused():
                world.run(now - 10, now - 1, experiment=21, workload=2)
                scheduler.close()
                assert not next(looks).over
        last = next(looks)
        assert (last.over, len(last.runs)) == (True, 2)


def test_a_query_that_conflicts_with_replay_is_retried(pair: Replicated) -> None:
    pair.replica.execute("alter system set max_standby_streaming_delay = '100ms'")
    pair.replica.execute("select pg_reload_conf()")
    conflicts = "select confl_lock from pg_stat_database_conflicts where datname = current_database()"
    before = pair.replica.execute(conflicts).fetchone()
    query = "select pg_sleep(1.5) from bench.passing"
    try:
        with pair.database.connect() as primary, Database(pair.settings, reading=True) as database:
            primary.execute("create table bench.passing as select 1; grant select on bench.passing to bench_reader")
            pair.catch_up()

            def change() -> None:
                time.sleep(0.5)
                primary.execute("alter table bench.passing add column another integer")

            with database.session() as connection, _beside(change):
                assert len(connection.execute(query.encode()).fetchall()) == 1
            assert pair.replica.execute(conflicts).fetchone() != before
            primary.execute("alter table bench.passing drop column another")
            pair.catch_up()
            with (
                _beside(change),
                pytest.raises(StatementFailed, match="max_standby_streaming_delay"),
                database.session() as connection,
                connection.transaction(),
            ):
                connection.execute(query.encode())
            primary.execute("drop table bench.passing")
    finally:
        pair.replica.execute("alter system reset max_standby_streaming_delay")
        pair.replica.execute("select pg_reload_conf()")
        pair.catch_up()


def test_a_replica_that_is_away_is_an_error_unless_the_primary_is_named_beside_it(
    pair: Replicated, bench: Command
) -> None:
    away = replace(pair.settings, read_dsn="host=/nowhere user=bench_reader password=geheim")
    status, _, error = bench(away, "list")
    assert status == 1
    assert "the database at user=bench_reader host=/nowhere (BENCH_READ_DSN) does not answer" in error
    assert "geheim" not in error
    shown = json.loads(bench(away, "status", "--json")[1])
    assert (shown["database"]["up"], shown["reads"]["up"]) == (True, False)
    primary = psycopg.conninfo.conninfo_to_dict(pair.settings.dsn or "")["host"]
    both = f"host=/nowhere,{primary} dbname=postgres user=bench_reader target_session_attrs=prefer-standby"
    assert bench(replace(pair.settings, read_dsn=both), "list")[0] == 0


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({"user": "postgres"}, BadRequest, "BENCH_READ_DSN logs in as postgres, who may write: give it bench_reader"),
        ({"dbname": "template1"}, BadRequest, "template1"),
        ({"user": "nobody_here"}, DatabaseUnavailable, "BENCH_READ_DSN.* does not answer.*nobody_here"),
        (
            {"user": "a_stranger"},
            BadRequest,
            "logs in as a_stranger, who may not read .*grant bench_reader to a_stranger",
        ),
    ],
)
def test_a_bad_one_is_refused(pair: Replicated, changes: dict[str, str], kind: type[BenchError], words: str) -> None:
    with pair.database.connect() as connection:
        connection.execute("drop role if exists a_stranger; create role a_stranger login")
        pair.catch_up()
    with pytest.raises(kind, match=words):
        Database(pair.reader(**changes), reading=True).open()


def test_who_may_write_may_become_one_who_may_not(pair: Replicated, bench: Command) -> None:
    settings = pair.reader(user="postgres", options="-crole=bench_reader")
    assert bench(settings, "list")[0] == 0
    with pytest.raises(BadRequest, match="who may write"):  # where people write SQL, they would become it again
        reader(Database(settings))


def test_older_and_newer_schemas_are_distinguished(pair: Replicated) -> None:
    with pair.database.connect() as connection:
        for change, words in (
            ("update functions_digest set digest = 'another'", "older than this release: run `bench db migrate`"),
            ("delete from migrations where version = 2", "older than this release"),
            ("insert into migrations values (9999, 'later', '')", "is at version 9999, .* update hypergauge"),
        ):
            saved = [
                connection.execute(f"select * from {one}".encode()).fetchall()
                for one in ("functions_digest", "migrations")
            ]
            connection.execute(change.encode())
            pair.catch_up()
            with pytest.raises(MigrationFailed, match=words):
                Database(pair.settings, reading=True).open()
            connection.execute("truncate functions_digest, migrations")
            connection.execute("insert into functions_digest values (%s)", saved[0][0])
            connection.cursor().executemany("insert into migrations values (%s, %s, %s, %s)", saved[1])
            pair.catch_up()


def _train(world: World, run_id: str, start: float) -> None:
    times = [start + at for at in range(50)]
    world.write(
        world.gauge("node_load1", times, [at % 7 + 0.5 for at in range(50)]),
        world.gauge("bench_process_cpu_seconds_total", times, [0.5] * 50, {"run_id": run_id}, "process"),
    )
    steps = [SpanRecord(f"s{n}", None, "step", "step", n, start + n, start + n + 1, 1, "main") for n in range(40)]
    store_spans(world.connection, run_id, steps)
    logged = [SoftwareMetric("loss", n, start + n, 1 / (n + 1)) for n in range(40)]
    store_software_metrics(world.connection, run_id, logged)
    world.connection.execute("select summarise(run_id) from runs where run_id = %s and ended_at is not null", (run_id,))


class _beside:  # noqa: N801 - it is used as a function
    """Do something in a thread of its own meanwhile."""

    def __init__(self, what: Callable[[], None]) -> None:
        self._thread = threading.Thread(target=what)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._thread.join()
