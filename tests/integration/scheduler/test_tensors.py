"""Reductions of tensors, from the client's file through the real reader to the database."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hypergauge.client.tensors import REDUCTIONS, TensorFile
from hypergauge.core.files.run_folder import RunFolder
from hypergauge.scheduler.tracking import tensors
from hypergauge.scheduler.tracking.spans import read_spans
from hypergauge.scheduler.tracking.tensors import TensorWatch, deliver_tensors
from hypergauge.sql.ingest.software import store_spans
from hypergauge.sql.ingest.tensors import store_tensors
from tests.support.waiting import wait_for
from tests.support.world import World, one, rows

pytestmark = pytest.mark.flavours

NOW = 1_800_000_000.0


def floats(*values: float) -> bytes:
    return np.array(values, "<f4").tobytes()


def folder_of(world: World, run: str) -> RunFolder:
    folder = RunFolder(world.folder.parent / run)
    folder.path.mkdir()
    return folder


@pytest.fixture
def folder(world: World) -> RunFolder:
    """The folder of a run in the database."""
    return folder_of(world, world.run(NOW, NOW + 100))


def test_what_was_written_is_found_once(world: World, folder: RunFolder) -> None:
    file = TensorFile(str(folder.tensors))
    names = ["fc1.weight", "fc2.weight"]
    nan, inf = float("nan"), float("inf")
    for step in (0, 50):
        at = NOW + step
        file.write(
            step, "weights", names, [6, 4], {"l2": floats(3, 4), "max": floats(nan, inf), "min": floats(nan, -2)}, at=at
        )
    file.write(50, "losses", ["loss"], [50], {"mean": floats(0.5), "nonfinite": floats(0)}, at=NOW + 50.25)
    file.write(100, "losses", ["loss"], [12], {"mean": floats(0.25)}, at=NOW + 100)
    with folder.tensors.open("a") as torn:
        torn.write('not a line\n{"set": "x"}\n{"set": "')
    for _ in range(2):
        deliver_tensors(world.connection, folder)
        assert rows(
            world,
            "select step, extract(epoch from time)::float8, collection, name, size, l2, max, min from tensor_stats"
            " where run_id = %s and collection = 'weights' order by step, name",
            folder.run_id,
        ) == [
            (step, NOW + step, "weights", name, size, l2, None, least)
            for step in (0, 50)
            for name, size, l2, least in ((names[0], 6, 3.0, None), (names[1], 4, 4.0, -2.0))
        ]
        assert rows(
            world, "select step, size, mean, nonfinite from tensor_stats where collection = 'losses' order by step"
        ) == [(50, 50, 0.5, 0.0), (100, 12, 0.25, None)]
        stored = rows(world, "select norm, max is null, sizes from tensor_steps order by norm nulls last, time")
        assert stored == [(5.0, True, None)] * 2 + [(None, True, None), (None, True, [12])]


def test_a_crash_between_batches_loses_and_doubles_nothing(
    world: World, folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensors, "_BATCH_STEPS", 7)
    file = TensorFile(str(folder.tensors))
    for step in range(40):
        file.write(step, f"c{step % 3}", ["a"], [1], {"mean": floats(step)}, at=NOW + step / 3)
    store, calls = store_tensors, 0

    def crash(*args: object) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        store(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(tensors, "store_tensors", crash)
    with pytest.raises(KeyboardInterrupt):
        deliver_tensors(world.connection, folder)
    assert one(world, "select count(*) from tensor_steps") == 14
    calls = 10
    deliver_tensors(world.connection, folder)
    assert rows(world, "select step::integer, mean from tensor_stats order by step") == [(n, n) for n in range(40)]
    assert calls == 10 + 4, "what is stored is not sent again"


@pytest.fixture
def watch(world: World, folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> Iterator[TensorWatch]:
    """A live copy that looks often."""
    monkeypatch.setattr(tensors, "_INTERVAL_SECONDS", 0.02)
    watch = TensorWatch(world.database, folder)
    watch.start()
    yield watch
    watch.end()


def test_a_live_run_has_its_newest_steps(world: World, folder: RunFolder, watch: TensorWatch) -> None:
    file = TensorFile(str(folder.tensors))
    newest = "select coalesce(max(step), -1) from tensor_stats where run_id = %s"
    for step in (0, 1):
        file.write(step, "weights", ["a"], [1], {"mean": floats(step)})
        wait_for(lambda: one(world, newest, folder.run_id) == step, f"step {step}")  # noqa: B023 - called at once
    line = folder.tensors.read_bytes().splitlines()[-1].replace(b'"step": 1', b'"step": 2')
    with folder.tensors.open("ab") as slow:
        slow.write(line[:50])
        slow.flush()
        time.sleep(0.1)
        slow.write(line[50:] + b"\n")
    wait_for(lambda: one(world, newest, folder.run_id) == 2, "the line that was written in two parts")
    watch.end()
    deliver_tensors(world.connection, folder)
    assert one(world, "select count(*) from tensor_steps") == 3


def test_a_flood_is_thinned_while_the_run_lives_and_whole_at_its_end(
    world: World, folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensors, "_INTERVAL_SECONDS", 0.02)
    monkeypatch.setattr(tensors, "_MOST_BYTES", 2000)
    monkeypatch.setattr(tensors, "_LONGEST_LINE", 1000)
    file = TensorFile(str(folder.tensors))
    for step in range(100):
        file.write(step, "weights", ["a"], [1], {"mean": floats(step)}, at=NOW + step)
    with folder.tensors.open("ab") as other:
        other.write(b'{"set": "' + b"x" * 5000 + b'"}\n')
    file.write(100, "weights", ["a"], [1], {"mean": floats(100)}, at=NOW + 100)
    watch = TensorWatch(world.database, folder)
    watch.start()
    wait_for(
        lambda: one(world, "select count(*) from tensor_steps") == 1, "the newest step, the only one within the limit"
    )
    watch.end()
    assert one(world, "select max(step) from tensor_stats") == 100, "its set is known, though its line is old"
    deliver_tensors(world.connection, folder)
    assert one(world, "select count(*) from tensor_stats") == 101


def test_problems_are_stored_once(world: World, folder: RunFolder) -> None:
    file = TensorFile(str(folder.tensors))
    file.problem("out of memory")
    file.problem("out of memory")
    for _ in range(2):
        deliver_tensors(world.connection, folder)
    assert rows(world, "select run_id, problem from tensor_problems") == [(folder.run_id, "out of memory")]
    notices = rows(world, 'select code, "values" from run_notice(%s, null, now())', folder.run_id)
    assert ("watch_failed", {"problems": ["out of memory"]}) in notices


def test_gaps_of_a_watch_are_a_notice_of_their_own(world: World, folder: RunFolder) -> None:
    file = TensorFile(str(folder.tensors))
    file.gap("no losses: backward is not called")
    deliver_tensors(world.connection, folder)
    gaps = ("watch_gaps", {"gaps": ["no losses: backward is not called"]})
    notices = rows(world, 'select code, "values" from run_notice(%s, null, now())', folder.run_id)
    assert [notice for notice in notices if notice[0].startswith("watch")] == [gaps]
    query = (
        """select code, "values" from chart_notice(array[%s], '{threads}', 40, to_timestamp(0), to_timestamp(100))"""
    )
    notices = rows(world, query, folder.run_id)
    assert [notice for notice in notices if notice[0].startswith("watch")] == [gaps]


def test_a_removed_run_takes_them_along_and_none_come_after_it(world: World, folder: RunFolder) -> None:
    other = folder_of(world, world.run(NOW, NOW + 100, workload=2))
    for one_ in (folder, other):
        file = TensorFile(str(one_.tensors))
        file.write(1, "weights", ["a"], [1], {"mean": floats(1)})
        file.problem("x")
        deliver_tensors(world.connection, one_)
    one(world, "select remove_runs(%s)", [folder.run_id])
    deliver_tensors(world.connection, folder)
    for table in ("tensor_sets", "tensor_steps", "tensor_problems"):
        assert rows(world, f"select run_id from {table}") == [(other.run_id,)]


names = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), min_size=1, max_size=12)
values = st.floats(width=32)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_every_value_comes_back(world: World, tmp_path: Path, data: st.DataObject) -> None:
    folder = folder_of(world, world.run(NOW, NOW + 1, workload=int(time.time_ns() % 1_000_000_000)))
    file = TensorFile(str(folder.tensors))
    expected = {}
    for number in range(data.draw(st.integers(1, 4))):
        collection = data.draw(names)
        tensors = data.draw(st.lists(names, min_size=1, max_size=4, unique=True))
        sizes = data.draw(st.lists(st.integers(0, 2**62), min_size=len(tensors), max_size=len(tensors)))
        reductions = data.draw(st.lists(st.sampled_from(REDUCTIONS), unique=True))
        drawn = {name: data.draw(st.lists(values, min_size=len(tensors), max_size=len(tensors))) for name in reductions}
        step = data.draw(st.integers(-(2**62), 2**62))
        file.write(
            step, collection, tensors, sizes, {name: floats(*some) for name, some in drawn.items()}, at=NOW + number
        )
        for at, tensor in enumerate(tensors):
            row = [drawn[name][at] if name in drawn else float("nan") for name in REDUCTIONS]
            expected[number, tensor] = (
                collection, step, sizes[at], *(one if np.isfinite(one) else None for one in row)
            )  # fmt: skip
    deliver_tensors(world.connection, folder)
    found = rows(
        world,
        f"select (extract(epoch from time) - %s)::integer, name, collection, step, size, {', '.join(f'{name}::float8' for name in REDUCTIONS)}"
        " from tensor_stats where run_id = %s",
        NOW,
        folder.run_id,
    )
    assert len(found) == len(expected)
    for number, name, *row in found:
        assert tuple(row) == expected[number, name]


def test_spans_have_their_waits_and_work(world: World, folder: RunFolder) -> None:
    span = {
        "id": "1-1",
        "parent": None,
        "name": "step",
        "kind": "step",
        "step": 1,
        "start": NOW,
        "end": NOW + 1,
        "pid": 1,
        "thread": "m",
    }
    lines = [
        {**span, "end": None},
        {**span, "data_wait": 0.25, "samples": 32, "tokens": 4096.0, "flops": 1e12},
        {**span, "id": "1-2", "data_wait": -1, "samples": "32", "tokens": True, "flops": 10**400},
        {**span, "id": "1-3", "data_wait": float("nan"), "samples": float("inf"), "tokens": [1], "pid": 2**40},
        {**span, "id": "1-4", "start": 1e300},
    ]
    folder.spans.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    for _ in range(2):
        store_spans(world.connection, folder.run_id, read_spans(folder.spans))
        assert rows(
            world,
            "select span_id, data_wait, samples, tokens, flops from spans where run_id = %s order by 1",
            folder.run_id,
        ) == [("1-1", 0.25, 32, 4096, 1e12), ("1-2", *[None] * 4), ("1-3", *[None] * 4)]
