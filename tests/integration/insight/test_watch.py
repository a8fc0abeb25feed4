"""Updates of running runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from hypergauge.client.track import Track
from hypergauge.core.errors import BadRequest
from hypergauge.core.files.run_folder import RunFolder
from hypergauge.insight.watch import Watched, WatchedRun, watch
from hypergauge.scheduler.tracking.spans import SpanWatch
from hypergauge.sql.ingest.software import SpanRecord, store_spans
from hypergauge.sql.runs.experiments import lock_experiment
from hypergauge.sql.runs.firings import Firing, store
from hypergauge.sql.server.database import Database
from tests.support.waiting import HUNG_SECONDS
from tests.support.world import World


def look(looks: Iterator[Watched]) -> dict[str, WatchedRun]:
    return {one.run.label: one for one in next(looks).runs}


def test_levels_are_those_of_now_in_the_narrowest_scope(world: World) -> None:
    now = time.time()
    first = world.run(now - 40, gpu="GPU-1")
    world.run(now - 40, gpu="GPU-1", position=2)
    world.run(now - 90, now - 50, position=3)
    times = [now - 39 + at for at in range(39)]
    world.write(
        world.gauge("bench_process_cpu_seconds_total", times, [1.0] * 19 + [0.5] * 20, {"run_id": first}, "process"),
        world.gauge("node_memory_MemTotal_bytes", times, [8e9] * 39),
        world.gauge("DCGM_FI_DEV_POWER_USAGE", times, [250.0] * 39, {"UUID": "GPU-1"}, "dcgm"),
        world.gauge("DCGM_FI_DEV_GPU_UTIL", times[:20], [90.0] * 20, {"UUID": "GPU-1"}, "dcgm"),
    )
    runs = look(watch(world.database, ["20"]))
    levels = runs["20/1/1"].levels
    # Neither what is the host's nor what is twenty seconds old.
    assert {name: (level.value, level.scope) for name, level in levels.items()} == {
        "cpu_usage": (0.5, "process"),
        "gpu_power": (250.0, "device"),
    }
    assert set(runs["20/1/2"].levels) == {"gpu_power"}
    assert runs["20/1/3"].levels == {}
    history = levels["cpu_usage"].history
    assert len(history) == 60
    assert set(history[:35]) == {None}
    assert set(history[42:49]) == {1.0}
    assert set(history[52:58]) == {0.5}


def test_a_position_is_the_innermost_open_phase_and_the_newest_epoch_and_step(world: World) -> None:
    now = time.time()
    run_id = world.run(now - 60)
    world.run(now - 60, position=2)

    def span(name: str, kind: str, step: int | None, at: float, seconds: float | None) -> SpanRecord:
        begin = now - 60 + at
        return SpanRecord(f"{name}{at}", None, name, kind, step, begin, seconds and begin + seconds, 1, "main")

    store_spans(
        world.connection,
        run_id,
        [
            span("train", "phase", None, 1, None),
            span("warmup", "phase", None, 2, 5),
            span("epoch 0", "epoch", 0, 2, 20),
            span("epoch 1", "epoch", 1, 22, None),
            *(span("step", "step", number, 2 + number, 1) for number in range(30)),
            span("validate", "phase", None, 30, None),
            span("callback", "span", None, 31, None),
        ],
    )
    runs = look(watch(world.database, ["20"]))
    at = runs["20/1/1"].position
    assert at is not None
    assert (at.phase, at.epoch, at.step) == ("validate", 1, 29)
    assert runs["20/1/2"].position is None


def test_rules_are_those_that_hold_now(world: World) -> None:
    now = time.time()
    run_id = world.run(now - 60)
    began, ended, stop = (datetime.fromtimestamp(now - ago, UTC) for ago in (50, 30, 1))
    for rule, until in {"StepOutlier": ended, "IdleDevice": None, "CpuSaturated": None}.items():
        firing = Firing(run_id, rule, began, until, "warning", {})
        store(world.connection, run_id, rule, [firing], start=began, stop=stop)
    assert look(watch(world.database, ["20"]))["20/1/1"].rules == ("CpuSaturated", "IdleDevice")


def test_it_ends_with_the_last_run_and_reports_whether_one_failed(world: World) -> None:
    now = time.time()
    first, second = world.run(now - 10), world.run(now - 10, position=2)
    looks = watch(world.database, ["20/1"])
    assert not next(looks).over
    world.end(first, now - 10, now - 5)
    seen = next(looks)
    assert (seen.over, seen.failed) == (False, False)
    world.end(second, now - 10, now - 1, "failed")
    seen = next(looks)
    assert (seen.over, seen.failed) == (True, True)
    assert list(looks) == []


def test_an_experiment_is_watched_as_long_as_it_is_scheduled(world: World) -> None:
    now = time.time()
    world.run(now - 10, now - 5)
    with world.database.connect() as scheduler:
        lock_experiment(scheduler, 20)
        whole, workload, later = (watch(world.database, [text]) for text in ("20", "20/1", "20/2"))
        assert not next(whole).over
        assert next(workload).over
        assert next(later) == Watched((), over=False, awaited=("20/2 names no run; there are the workloads 20/1",))
        world.run(now - 2, now - 1, workload=2)
    assert next(whole).over
    assert next(later).over
    with pytest.raises(BadRequest, match="20/3 names no run; there are the workloads 20/1, 20/2"):
        next(watch(world.database, ["20/3"]))


def test_an_experiment_that_is_about_to_begin_is_waited_for(world: World) -> None:
    now, selector = time.time(), "21/1/1"
    world.run(now - 10, now - 5)
    looks = watch(world.database, [selector, "20"])
    assert next(watch(world.database, ["21"])).awaited == ("21 names no run; existing experiments: 20",)
    seen = next(looks)
    assert (seen.over, seen.awaited) == (False, (f"{selector} names no run; existing experiments: 20",))
    assert [one.run.label for one in seen.runs] == ["20/1/1"]
    assert seen.as_dict()["awaited"] == [f"{selector} names no run; existing experiments: 20"]
    world.connection.execute("insert into experiments (experiment_id, name, source) values (21, '', '')")
    assert next(looks).awaited == (f"{selector} names no run; it has no runs yet",)
    run_id = world.run(now - 2, experiment=21)
    seen = next(looks)
    assert (seen.over, seen.awaited) == (False, ())
    assert [one.run.label for one in seen.runs] == ["21/1/1", "20/1/1"]
    world.end(run_id, now - 2, now - 1)
    assert next(looks).over


def test_what_cannot_be_about_to_begin_is_refused_at_once(world: World) -> None:
    now = time.time()
    world.run(now - 10, now - 5)
    for selector, why in {
        "20-1": "selects nothing: write EXPERIMENT",
        "20/3": "20/3 names no run; there are the workloads 20/1",
        "20/1/2": "20/1/2 names no run; there are the runs 20/1/1",
        "abcdef0": "no run's id begins with abcdef0",
    }.items():
        with pytest.raises(BadRequest, match=why):
            next(watch(world.database, ["21", selector]))


def test_a_database_that_goes_away_is_queried_again(world: World) -> None:
    world.run(time.time() - 10)
    looks = watch(world.database, ["20"])
    before = next(looks)
    world.connection.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = current_database() and application_name = 'hypergauge' and pid <> pg_backend_pid()"
    )
    seen = next(looks)
    assert seen.problem == "terminating connection due to administrator command"
    assert seen.runs == before.runs
    seen = next(looks)
    assert seen.problem is None
    assert [one.run.label for one in seen.runs] == ["20/1/1"]


def test_spans_arrive_during_the_run(world: World, database: Database) -> None:
    folder = RunFolder(world.folder / world.run(time.time() - 10))
    folder.path.mkdir(parents=True)
    watching = SpanWatch(database, folder)
    watching.start()
    track = Track(str(folder.spans))

    def stored() -> list[tuple[str, int | None, bool]]:
        return world.connection.execute(
            "select name, step, ended_at is not null from spans where run_id = %s order by started_at", (folder.run_id,)
        ).fetchall()

    def await_span(name: str) -> list[tuple[str, int | None, bool]]:
        deadline = time.monotonic() + HUNG_SECONDS
        while name not in [found for found, *_ in stored()]:
            assert time.monotonic() < deadline, stored()
            time.sleep(0.05)
        return stored()

    try:
        with track.phase("train"):
            with track.step(0):
                pass
            track.append(b'{"id": "torn", ')
            assert await_span("step") == [("train", None, False), ("step", 0, True)]
            track.append(b"\n")
            for number in range(5000):
                with track.step(number):
                    pass
            with track.phase("save"):
                pass
        found = await_span("save")
    finally:
        watching.end()
    # More than it takes at a time: the newest are there before the end.
    assert ("save", None, True) in found
    assert ("train", None, True) in found
    assert 1000 < len(found) < 3000
