"""Starts and ends of runs during writes: no wait, no wrong tag, no lost end."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from hypergauge.core.files.run_folder import RunEnd
from hypergauge.sql.ingest import samples
from hypergauge.sql.runs import experiments, runs
from hypergauge.sql.server.database import Connection
from tests.support.waiting import HUNG_SECONDS, wait_for
from tests.support.world import HOST, World

pytestmark = pytest.mark.flavours

LEASE = 15.0


@pytest.fixture
def beside(world: World) -> Iterator[World]:
    """The world over a connection of its own, which gives up what it has to wait for."""
    with world.database.connect() as connection:
        connection.execute("set lock_timeout = '20s'")
        yield World(world.database, world.folder, connection)


def mistagged(world: World) -> list[tuple[float, int]]:
    return world.connection.execute(
        """
        select extract(epoch from time)::float8, runset_id from samples join series using (series_id)
        where runset_id <> tag_at(place_id, time)
        """
    ).fetchall()


@pytest.mark.parametrize("kind", ["gauge", "counter"])
def test_a_run_begins_and_ends_while_samples_of_its_time_are_written(
    world: World, beside: World, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    start = time.time() // 10 * 10 - 3600
    copy_samples = samples.copy_samples
    begun: list[str] = []

    def begin_meanwhile(connection: Connection, columns: samples.Columns, **options: Any) -> None:
        copy_samples(connection, columns, **options)
        if not begun:
            begun.append(beside.run(start + 13.25, start + 77.5))
            begun.append(beside.run(start + 90.2, start + 90.4, position=2))  # between two samples

    world.write(world.gauge("node_load1", [start - 5], [1.0]))
    metric = "node_load1" if kind == "gauge" else "node_context_switches_total"
    if kind == "gauge":
        record = world.gauge(metric, [start + at for at in range(120)], [1.0] * 120)
    else:
        scrapes = [(start + at, f"# TYPE {metric} counter\n{metric} {at}\n".encode()) for at in range(120)]
        record = world.scraped(scrapes, "host")
    monkeypatch.setattr(samples, "copy_samples", begin_meanwhile)
    world.write(record)
    monkeypatch.undo()
    world.write()  # which retags, where that is still to do
    assert len(begun) == 2
    assert mistagged(world) == []
    row = world.connection.execute(
        "select count(*), min(time), max(time) from run_samples where run_id = %s and metric = %s", (begun[0], metric)
    ).fetchone()
    assert row is not None
    assert row[0] == (64 if kind == "gauge" else 65)  # of a counter the last second is divided at the end
    if kind == "counter":
        within = "select round(sum(dt)::numeric, 3)::float8 from run_samples where run_id = %s and metric = %s"
        assert world.connection.execute(within, (begun[0], metric)).fetchone() == (64.25,)
        assert world.connection.execute(within, (begun[1], metric)).fetchone() == (0.2,)


def test_writers_that_never_pause_block_no_other(world: World, beside: World) -> None:
    start = time.time() // 10 * 10 - 86_400
    world.run(start)  # the places are there
    stopping, begun = threading.Event(), threading.Barrier(4)

    def drain(number: int) -> None:
        """Write as a collector with a backlog does, so that at every moment a writer is in the middle of it."""
        with world.database.connect() as connection:
            begun.wait(HUNG_SECONDS)
            for batch in range(1_000_000):
                with connection.transaction():
                    samples.begin_write(connection, f"source {number}", [batch])
                    time.sleep(0.1)
                if stopping.is_set():
                    return

    with ThreadPoolExecutor(3) as pool:
        drains = [pool.submit(drain, number) for number in range(3)]
        begun.wait(HUNG_SECONDS)
        try:
            for position in range(2, 7):
                beside.run(start + position, position=position)
        finally:
            stopping.set()
        for one in drains:
            one.result(HUNG_SECONDS)


def test_a_run_starts_when_nothing_is_in_its_way_any_more(world: World, beside: World) -> None:
    experiments.claim_experiment(world.connection, 20, name="test", source="test.csv", into=True)
    run_id = world.run(time.time() - 60)
    workload_id = experiments.open_workload(world.connection, 20, 1)
    with ThreadPoolExecutor(1) as pool:
        with world.connection.transaction():
            samples.end_write(world.connection)
            started: Future[float] = pool.submit(
                runs.start_runs, beside.connection, workload_id, [runs.Placement(run_id, HOST)]
            )
            waiting = "select 1 from pg_locks where not granted"
            with psycopg.connect(world.database.dsn, autocommit=True) as observer:
                wait_for(lambda: observer.execute(waiting).fetchone(), "that it waits")
            free_at = time.time()
        assert started.result(HUNG_SECONDS) >= free_at


def test_of_two_collectors_one_writes_a_summary(world: World, beside: World) -> None:
    now = time.time()
    run_id = world.run(now - 120, now - 60)
    with world.connection.transaction():
        assert samples.summarise_ended_runs(world.connection, settled=0) == 1
        assert samples.summarise_ended_runs(beside.connection, settled=0) == 0, "neither waits nor fails"
    assert world.connection.execute("select summarised from runs where run_id = %s", (run_id,)).fetchall() == [(True,)]


def silent(world: World, *run_ids: str) -> None:
    world.connection.execute(
        "update runs set lease_until = now() - interval '1 h' where run_id = any(%s)", (list(run_ids),)
    )


def ends(world: World) -> list[tuple[str, int | None]]:
    return world.connection.execute("select status, exit_code from runs order by position").fetchall()


def test_what_its_supervisor_ends_at_this_moment_is_not_lost(world: World, beside: World) -> None:
    now = time.time()
    run_id = world.run(now - 120)
    silent(world, run_id)
    with ThreadPoolExecutor(1) as pool:
        with world.connection.transaction():
            world.end(run_id, now - 120, now - 1)
            lost = pool.submit(runs.end_lost_runs, beside.connection, LEASE)
            assert lost.result(HUNG_SECONDS) == [], "it does not wait for it either"
        assert ends(world) == [("finished", 0)]
    assert runs.end_lost_runs(beside.connection, LEASE) == []


def test_an_end_that_was_seen_is_never_replaced_by_one_that_was_not(world: World) -> None:
    now = time.time()
    run_id = world.run(now - 120)
    lost = RunEnd("failed", now - 120, now - 60, None, "its supervisor vanished", 0.0, 0, 0, 0)
    runs.end_run(world.connection, run_id, lost)
    assert ends(world) == [("failed", None)]
    world.end(run_id, now - 120, now - 30)
    assert ends(world) == [("finished", 0)], "it was there after all"
    runs.end_run(world.connection, run_id, lost)
    assert ends(world) == [("finished", 0)]


def test_runs_that_end_while_others_are_given_up_wait_for_no_waiting_run(world: World, beside: World) -> None:
    now = time.time()
    for iteration in range(10):
        ids = [world.run(now - 120, workload=iteration + 1, position=position) for position in range(1, 5)]
        silent(world, *ids)
        with ThreadPoolExecutor(2) as pool:
            lost = pool.submit(runs.end_lost_runs, beside.connection, LEASE)
            for run_id in reversed(ids):
                world.end(run_id, now - 120, now - 1)
            assert set(lost.result(HUNG_SECONDS)) <= set(ids)
    assert ends(world) == [("finished", 0)] * 40
