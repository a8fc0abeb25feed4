"""Tags of samples by their own time, in whatever order starts and ends become known."""

from __future__ import annotations

import time
import uuid
from dataclasses import replace

import pytest

from hypergauge.collector.spool.records import SpoolRecord
from hypergauge.sql.ingest import samples
from hypergauge.sql.runs import runs
from tests.support.world import HOST, LEVELS, World

pytestmark = pytest.mark.flavours

SPAN = 120


def mistagged(world: World) -> list[tuple[float, int]]:
    """Return the samples whose tag does not match their time and resource."""
    return world.connection.execute(
        """
        select extract(epoch from time)::float8, runset_id from samples join series using (series_id)
        where runset_id <> tag_at(place_id, time)
        """
    ).fetchall()


def counts(world: World, run_id: str) -> dict[str, int]:
    """Return the number of a run's samples, by relation."""
    raw = world.connection.execute("select count(*) from run_samples where run_id = %s", (run_id,)).fetchone()
    assert raw is not None
    answer = {"run_samples": raw[0]}
    for relation in LEVELS:
        row = world.connection.execute(
            f"""
            select coalesce(sum(n), 0)::int from {relation} a join run_sets r using (runset_id)
            where r.run_id = %s
            """.encode(),
            (run_id,),
        ).fetchone()
        assert row is not None
        answer[relation] = row[0]
    return answer


def agree(world: World, run_id: str, expected: int) -> None:
    world.refresh()
    assert counts(world, run_id) == dict.fromkeys(["run_samples", *LEVELS], expected)


@pytest.mark.parametrize("scraped", ["before the run was known", "after the run had ended"])
def test_a_run_has_the_samples_between_its_start_and_its_end(world: World, scraped: str) -> None:
    start = time.time() // 10 * 10 - 3600
    record = world.gauge("node_load1", [start + at for at in range(SPAN)], [1.0] * SPAN)
    if scraped == "before the run was known":
        world.write(record)
        world.refresh()
        run_id = world.run(start + 13, start + 77)
        world.write()
    else:
        run_id = world.run(start + 13, start + 77)
        world.write(record)
    agree(world, run_id, 77 - 13)
    assert mistagged(world) == []


def test_a_late_end_removes_later_samples_from_the_run(world: World) -> None:
    start = time.time() // 10 * 10 - 3600
    run_id = world.run(start + 5)
    world.write(world.gauge("node_load1", [start + at for at in range(SPAN)], [1.0] * SPAN))
    world.refresh()
    agree(world, run_id, SPAN - 5)
    world.end(run_id, start + 5, start + 50.5)
    assert world.write().retagged._value.get() == SPAN - 51
    agree(world, run_id, 46)
    assert mistagged(world) == []


def test_runs_are_half_open_to_the_microsecond(world: World) -> None:
    start = time.time() // 10 * 10 - 3600
    run_id = world.run(start + 1.000001, start + 2.000001)
    times = [start + 1.0, start + 1.000001, start + 2.0, start + 2.000001, start + 2.000002]
    world.write(world.gauge("node_load1", times, [1.0] * 5))
    agree(world, run_id, 2)


def test_overlapping_runs_share_host_samples_and_have_their_own(world: World) -> None:
    start = time.time() // 10 * 10 - 3600
    one, two = world.run(start + 10, start + 60), world.run(start + 40, start + 90, position=2)
    every = [start + at for at in range(SPAN)]
    world.write(
        world.gauge("node_load1", every, [1.0] * SPAN),
        world.gauge("bench_process_threads", every[10:60], [4.0] * 50, {"run_id": one}, "process"),
        world.gauge("bench_process_threads", every[40:90], [8.0] * 50, {"run_id": two}, "process"),
    )
    stored = world.connection.execute(
        "select count(*) from samples join series using (series_id) where metric = 'node_load1'"
    )
    assert stored.fetchone() == (SPAN,)
    for run_id, threads in ((one, 4.0), (two, 8.0)):
        rows = world.connection.execute(
            "select quantity, scope, count(*), max(value) from run_samples where run_id = %s group by 1, 2 order by 1",
            (run_id,),
        ).fetchall()
        assert rows == [("load", "host", 50, 1.0), ("threads", "process", 50, threads)]
        agree(world, run_id, 100)
    shared = world.connection.execute("select bool_and(shared) from run_quality").fetchone()
    assert shared == (True,)


def test_a_gpu_is_exclusive_until_it_is_shared(world: World) -> None:
    start = time.time() // 10 * 10 - 3600
    one = world.run(start, start + 60, gpu="GPU-1")
    world.run(start + 20, start + 40, position=2, gpu="GPU-1")
    labels = {"UUID": "GPU-1", "gpu": "0"}
    world.write(world.gauge("DCGM_FI_DEV_POWER_USAGE", [start + at for at in range(60)], [100.0] * 60, labels, "dcgm"))
    rows = world.connection.execute(
        "select scope, count(*) from run_samples where run_id = %s and quantity = 'gpu_power' group by 1 order by 1",
        (one,),
    ).fetchall()
    assert rows == [("device", 20), ("instance", 40)]


def test_a_mig_run_sees_its_own_instance_and_no_other(world: World) -> None:
    start = time.time() // 10 * 10 - 3600
    one = world.run(start, start + 60, gpu="GPU-1", gpu_instance=3)
    two = world.run(start, start + 60, position=2, gpu="GPU-1", gpu_instance=4)
    times = [start + at for at in range(60)]
    for instance in (3, 4):
        labels = {"UUID": "GPU-1", "GPU_I_ID": str(instance)}
        world.write(world.gauge("DCGM_FI_PROF_SM_ACTIVE", times, [instance / 10] * 60, labels, "dcgm"))
    for run_id, value in ((one, 0.3), (two, 0.4)):
        rows = world.connection.execute(
            "select distinct scope, value from run_samples where run_id = %s and quantity = 'gpu_sm_active'", (run_id,)
        ).fetchall()
        assert rows == [("instance", value)]


def test_a_lost_run_ends_at_its_last_sample(world: World) -> None:
    now = time.time()
    run_id = world.run(now - 120)
    times = [now - 120 + at for at in range(60)]
    world.write(world.gauge("bench_process_processes", times, [2.0] * 60, {"run_id": run_id}, "process"))
    world.connection.execute("update runs set lease_until = now() - interval '1 s' where run_id = %s", (run_id,))
    assert runs.end_lost_runs(world.connection) == [run_id]
    assert runs.end_lost_runs(world.connection) == []
    row = world.connection.execute(
        "select status, extract(epoch from ended_at)::float8 from runs where run_id = %s", (run_id,)
    ).fetchone()
    assert row == ("failed", pytest.approx(times[-1], abs=1e-5))


def test_a_run_with_new_samples_is_not_lost(world: World) -> None:
    now = time.time()
    run_id = world.run(now - 120)
    world.write(world.gauge("bench_process_processes", [now - 5], [2.0], {"run_id": run_id}, "process"))
    world.connection.execute("update runs set lease_until = now() - interval '1 s' where run_id = %s", (run_id,))
    assert runs.end_lost_runs(world.connection) == []


def test_a_batch_sent_again_changes_nothing(world: World) -> None:
    start = time.time() // 10 * 10 - 3600
    record = world.gauge("node_load1", [start, start + 1], [1.0, 2.0])
    world.write(record)
    [(source, batch)] = world.connection.execute("select source, batch from batches").fetchall()
    assert samples.begin_write(world.connection, source, [batch, batch + 1]).fresh == {batch + 1}


def test_run_sets_are_the_same_in_whatever_order_they_become_known(world: World) -> None:
    start = time.time() // 10 * 10 - 3600
    spans = [(0, 50), (10, 20), (20, 80), (15, 60), (90, 100)]
    world.write(world.gauge("node_load1", [start + at for at in range(SPAN)], [1.0] * SPAN))
    by_run = {}
    for position, (begin, end) in enumerate(spans, 1):
        run_id = world.run(start + begin, position=position)
        by_run[run_id] = (begin, end)
        world.write()
    for run_id, (begin, end) in reversed(by_run.items()):
        world.end(run_id, start + begin, start + end)
        world.write()
    for run_id, (begin, end) in by_run.items():
        agree(world, run_id, end - begin)
    assert mistagged(world) == []
    assert world.connection.execute(
        "select count(*) from places where host = %s and kind = 'host'", (HOST,)
    ).fetchone() == (1,)


def test_refused_samples_cost_no_other(world: World) -> None:
    now = time.time()
    good = world.gauge("node_load1", [now - 3], [1.0])
    bad = [
        world.gauge("node_load5", [now - 3], [1.0], {"name": "a\0b"}),
        world.gauge("".join(uuid.uuid4().hex for _ in range(300)), [now - 3], [1.0]),  # no index takes it
        world.gauge("node_load15", [-3e14], [1.0]),
    ]
    # One record with several targets: concurrent scrapes are joined in the spool.
    parts = [
        world.gauge("node_load1", [now - 2], [2.0], exporter="one"),
        world.gauge("node_load1", [now - 2], [2.0], {"name": "a\0b"}, exporter="two"),
    ]
    mixed = replace(SpoolRecord.joined(parts), series={ref: one for part in parts for ref, one in part.series.items()})
    later = world.gauge("node_load1", [now - 1], [3.0])
    metrics = world.write(good, *bad, mixed, later)
    assert world.connection.execute("select value from samples order by time").fetchall() == [(1.0,), (2.0,), (3.0,)]
    assert metrics.dropped.labels("refused")._value.get() == len(bad) + 1
