"""A backlog, an import, retention and maintenance: no sample is lost or counted twice."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace

import pytest

from hypergauge.collector.metrics import CollectorMetrics
from hypergauge.collector.spool.queue import Spool
from hypergauge.collector.spool.records import SpoolRecord
from hypergauge.collector.write.writer import Writer
from hypergauge.core.config.settings import Settings
from hypergauge.sql.ingest.targets import TargetRow, claim_targets
from hypergauge.sql.maintenance import aggregates
from hypergauge.sql.queries.summaries import unsummarised
from hypergauge.sql.server.database import Database
from tests.conftest import NewFolder
from tests.support.data.spools import fill_spool
from tests.support.waiting import HUNG_SECONDS
from tests.support.world import LEVELS, World

pytestmark = pytest.mark.flavours

HOUR, SERIES = 3600, 100
DAY = 86_400


def written(world: World) -> dict[str, int]:
    """Return the number of samples in each aggregate."""
    return {
        relation: int(world.connection.execute(f"select coalesce(sum(n), 0) from {relation}".encode()).fetchall()[0][0])
        for relation in LEVELS
    }


def drain(settings: Settings, database: Database) -> None:
    spool = Spool(settings.spool_dir)
    writer = Writer(database, spool, threading.Condition(), CollectorMetrics())
    writer.start()
    writer.stop(timeout=HUNG_SECONDS)
    assert spool.depth == 0
    spool.close()


def test_a_run_is_summarized_when_all_responses_are_parsed(world: World) -> None:
    now = time.time()
    run = world.run(now - 60, now - 30)
    behind = CollectorMetrics()
    behind.unread_since = time.monotonic() - 5
    world.write(world.gauge("queue_length", [now - 50], [1.0]), metrics=behind)
    assert unsummarised(world.connection, [run])
    world.write()
    assert not unsummarised(world.connection, [run])


@pytest.mark.slow
def test_each_sample_is_in_each_aggregate_once(world: World, settings: Settings, new_folder: NewFolder) -> None:
    count = 0

    def agree() -> None:
        world.refresh()
        assert written(world) == dict.fromkeys(LEVELS, count)

    # What was live while an hour went by, in front of the backlog.
    now = time.time()
    world.write(world.gauge("queue_length", [now - 20 + at for at in range(20)], [1.0] * 20))
    world.refresh()
    count += 20
    away = replace(settings, home=new_folder() / "home")
    assert settings.dsn is not None
    fill_spool(settings.dsn, away.home, HOUR, SERIES)
    drain(away, world.database)
    count += HOUR * SERIES
    agree()

    # A run of 60 days ago, as an import brings it.
    start = now // 600 * 600 - 60 * DAY
    run_id = world.run(start, start + HOUR)
    capsule = [start + at for at in range(HOUR)]
    world.write(*(world.gauge("queue_length", capsule, [2.0] * HOUR, {"n": str(n)}) for n in range(10)))
    count += 10 * HOUR
    agree()
    summary = world.connection.execute(
        "select * from run_summary where run_id = %s order by 2, 4", (run_id,)
    ).fetchall()
    assert summary

    aggregates.keep_raw(world.connection, 30)
    for _ in range(2):
        aggregates.maintain(world.connection)
        agree()
        raw = world.connection.execute("select count(*) from samples").fetchone()
        assert raw == (20 + HOUR * SERIES,), "raw samples older than 30 days are deleted"
    assert (
        summary
        == world.connection.execute("select * from run_summary where run_id = %s order by 2, 4", (run_id,)).fetchall()
    )

    # A repetition, before the raw cutoff.
    world.write(*(world.gauge("queue_length", capsule, [3.0] * HOUR, {"n": str(n)}) for n in range(10, 15)))
    count += 5 * HOUR
    agree()
    for _ in range(2):
        aggregates.maintain(world.connection)
        agree()


def test_a_refused_record_costs_no_other(world: World) -> None:
    start = time.time() - 60
    good = [world.gauge("queue_length", [start + at], [float(at)]) for at in range(30)]
    bad = world.gauge("queue_length", [-7000 * 365.0 * DAY] * 3, [1.0] * 3)  # before PostgreSQL's first day
    metrics = world.write(*good[:20], bad, *good[20:])
    assert world.connection.execute("select count(*), sum(value) from samples").fetchone() == (30, sum(range(30)))
    assert metrics.dropped.labels("refused")._value.get() == 3


def test_a_targets_refused_series_cost_no_other_target(world: World) -> None:
    """Otherwise one bad line would make a collector register all its series each second."""
    world.connection.execute("create table reopened (metric text)")
    world.connection.execute(
        """
        create function reopened() returns trigger language plpgsql as $$
        begin insert into reopened values (new.metric); return new; end $$
        """
    )
    world.connection.execute("create trigger reopened before update on series for each row execute function reopened()")
    start = time.time() - 60
    good = world.gauge("queue_length", [start], [1.0])
    records: list[SpoolRecord] = []
    for number in range(10):
        parts = [replace(good, times=good.times + number), world.gauge("other", [start], [1.0], {"n": str(number)})]
        parts += [world.gauge("bad", [start], [1.0], {"UUID": "x" * 100_000 + os.urandom(4000).hex()}, "bad")] * 2
        known = {ref: one for part in parts for ref, one in part.series.items()}
        records += [replace(SpoolRecord.joined(parts), series=known)]
    metrics = world.write(*records)
    assert world.connection.execute("select count(*) from samples").fetchone() == (20,)
    assert metrics.dropped.labels("refused")._value.get() == 20
    assert world.connection.execute("select * from reopened").fetchall() == []
    assert metrics.write_errors._value.get() > 0


def test_a_series_with_two_refs_in_a_record_is_one(world: World) -> None:
    """A target's cache was cleared while the disk was slow, and both scrapes were joined."""
    start = time.time() - 60
    parts = [world.gauge("queue_length", [start + at], [1.0], {"a": "b"}) for at in range(3)]
    world.write(
        replace(SpoolRecord.joined(parts), series={ref: one for part in parts for ref, one in part.series.items()})
    )
    assert world.connection.execute("select count(*), count(distinct series_id) from samples").fetchone() == (3, 1)


def test_samples_of_provisional_targets_are_written_unless_another_collector_has_them(world: World) -> None:
    rows = {name: TargetRow(name, "node", f"{name}:1", f"http://{name}:1") for name in ("free", "held")}
    claim_targets(world.connection, "another", "elsewhere", 1, [rows["held"]])
    start = time.time() - 60
    parts = []
    for number, (name, row) in enumerate(rows.items(), 1):
        part = world.gauge("queue_length", [start + number], [float(number)], {"of": name})
        series = {ref: replace(one, target_id=-number, target=row) for ref, one in part.series.items()}
        parts.append(replace(part, series=series))
    known = {ref: one for part in parts for ref, one in part.series.items()}
    metrics = world.write(replace(SpoolRecord.joined(parts), series=known), replace(parts[0], times=parts[0].times + 1))
    found = world.connection.execute(
        "select t.host, s.host, value from samples join series s using (series_id) join targets t using (target_id)"
    ).fetchall()
    assert found == [("free", "free", 1.0)] * 2
    assert metrics.dropped.labels("taken")._value.get() == 1
