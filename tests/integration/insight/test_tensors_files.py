"""Reductions of tensors in Parquet, CSV and data frames: those of `tensor_stats`."""

from __future__ import annotations

import csv
import gzip
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from hypergauge.client.tensors import REDUCTIONS
from hypergauge.core.errors import BadRequest, NoData
from hypergauge.insight import tensors
from hypergauge.insight.export import tensors_file
from hypergauge.insight.export.tensors_file import write_tensors
from hypergauge.insight.part import Part
from hypergauge.sql.ingest.tensors import TensorSet, TensorStep, store_tensors
from hypergauge.sql.queries.tensors import expected_rows
from hypergauge.sql.runs.selection import select_runs
from tests.support.world import World, rows

pytestmark = pytest.mark.flavours

TYPES = {
    "run_id": pa.string(), "run": pa.string(), "step": pa.int64(), "time": pa.timestamp("us", tz="UTC"), "pid": pa.int32(),
    "collection": pa.string(), "name": pa.string(), "size": pa.int64(), **dict.fromkeys(REDUCTIONS, pa.float32()),
}  # fmt: skip
SETS = [
    TensorSet("7-1", "weights", ["fc1.weight", "fc2.weight", "fc2.bias, \"odd\""], [100, 10, 2**40]),
    TensorSet("7-2", "losses", ["loss"], [50]),
    TensorSet("8-1", "weights", ["fc1.weight"], [100]),
]  # fmt: skip
STEPS, EVERY = 7, 10.25


@pytest.fixture
def start() -> float:
    return float(time.time() // 1 - 600)


@pytest.fixture
def trained(world: World, start: float) -> list[str]:
    """Two runs of some tensors, and one without any."""
    ids = [world.run(start, start + 100, position=at) for at in (1, 2, 3)]
    chance = np.random.default_rng(1)
    for run_id in ids[:2]:
        steps = []
        for one in SETS:
            for number in range(STEPS):
                columns = {name: chance.normal(size=len(one.names)).astype("f4") for name in ("min", "l2", "p95")}
                columns["min"][0] = np.nan
                columns["l2"][-1] = np.inf
                columns["zeros"] = np.zeros(len(one.names), "f4")
                sizes = [number] if one.collection == "losses" else None
                pid = 7 if one.tensor_set == "7-1" else None
                steps.append(TensorStep(one.tensor_set, number * 2**50, start + number * EVERY, pid, sizes, columns))
        store_tensors(world.connection, run_id, SETS, steps)
    return ids


def expected(world: World) -> list[tuple[Any, ...]]:
    """Return the rows of `tensor_stats`, in an order of their own."""
    values = ", ".join(f"{name}::float8" for name in REDUCTIONS)
    found = rows(
        world,
        f"select run_id, run, step, time, pid, collection, t.name, size, {values}"
        " from tensor_stats t join run_list using (run_id)",
    )
    assert len(found) == 2 * STEPS * 5
    return in_order(found)


def in_order(found: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(found, key=lambda row: [(one is None, one) for one in row])


def written(world: World, path: Path, part: Part | None = None) -> int:
    runs = select_runs(world.connection, [])
    return write_tensors(world.connection, runs, path, parts=part.find(world.connection, runs) if part else None)


@pytest.mark.parametrize("at_once", [1, 6, 250_000])
def test_parquet_has_every_row(
    world: World, trained: list[str], tmp_path: Path, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensors_file, "AT_ONCE", at_once)
    done: list[int] = []
    number = write_tensors(world.connection, select_runs(world.connection, []), tmp_path / "a.parquet", done.append)
    table = parquet.read_table(tmp_path / "a.parquet")
    types = {one.name: one.type.value_type if pa.types.is_dictionary(one.type) else one.type for one in table.schema}
    assert types == TYPES
    found = [tuple(row.values()) for row in table.to_pylist()]
    assert number == len(found) == done[-1] == expected_rows(world.connection, trained)
    assert done == sorted(done)
    assert in_order(found) == expected(world)
    assert list(dict.fromkeys((row[1], row[5]) for row in found)) == [
        (run, collection) for run in ("20/1/1", "20/1/2") for collection in ("losses", "weights")
    ]


def test_csv_has_the_same_rows(world: World, trained: list[str], tmp_path: Path) -> None:
    for name in ("a.csv", "a.csv.gz"):
        assert written(world, tmp_path / name) == 2 * STEPS * 5
    content = (tmp_path / "a.csv").read_bytes()
    assert gzip.decompress((tmp_path / "a.csv.gz").read_bytes()) == content
    header, *lines = csv.reader(content.decode().splitlines())
    assert header == list(TYPES)
    integers = [header.index(name) for name in ("step", "pid", "size")]
    shown = {
        (line[1], line[6], *(int(line[at]) if line[at] else None for at in integers), *map(real, line[8:]))
        for line in lines
    }
    assert shown == {(row[1], row[6], *(row[at] for at in integers), *row[8:]) for row in expected(world)}


def real(text: str) -> float | None:
    return float(np.float32(text)) if text else None


def test_a_part_has_its_steps(world: World, trained: list[str], tmp_path: Path) -> None:
    assert written(world, tmp_path / "a.parquet", Part(10, 30)) == 2 * 2 * 5
    steps = parquet.read_table(tmp_path / "a.parquet").column("step").to_pylist()
    assert set(steps) == {1 * 2**50, 2 * 2**50}
    with pytest.raises(NoData, match="no tensors in this part"):
        written(world, tmp_path / "b.parquet", Part(90, 95))


def test_without_tensors_there_is_no_file(world: World, trained: list[str], tmp_path: Path) -> None:
    with pytest.raises(NoData, match=r"no tensors; scripts record them with `track.watch\(model\)`"):
        write_tensors(world.connection, select_runs(world.connection, ["20/1/3"]), tmp_path / "a.csv")
    assert not (tmp_path / "a.csv").exists()


def test_a_data_frame_by_selector_collection_and_name(world: World, trained: list[str]) -> None:
    settings = world.database.settings
    found = tensors(20, settings=settings)
    assert list(found.columns) == list(TYPES)
    everything = expected(world)
    assert len(found) == len(everything)
    assert found["l2"].isna().sum() == sum(row[13] is None for row in everything) > 0
    assert found["p95"].sum() == pytest.approx(sum(row[-1] for row in everything), rel=1e-4)
    assert found["std"].isna().all()
    [run] = tensors("20/1/2", settings=settings)["run"].unique()
    assert run == "20/1/2"
    losses = tensors(20, collection="losses", settings=settings)
    assert losses["size"].tolist() == [*range(STEPS)] * 2
    some = tensors("20/1/1", collection="weights", name="fc?.weight", settings=settings)
    assert sorted(some["name"].unique()) == ["fc1.weight", "fc2.weight"]
    assert len(some) == STEPS * 3
    second = tensors("20/1/1", name="fc2.weight", settings=settings)
    mine = [row for row in everything if row[1] == "20/1/1" and row[6] == "fc2.weight"]
    assert second["l2"].tolist() == pytest.approx([row[13] for row in mine])


def test_what_no_run_has_is_named(world: World, trained: list[str]) -> None:
    settings = world.database.settings
    with pytest.raises(NoData, match=r"no tensors of the collection 'weight' \(did you mean 'weights'\?\)"):
        tensors(20, collection="weight", settings=settings)
    with pytest.raises(NoData, match="they have losses, weights"):
        tensors(20, collection="tanh", settings=settings)
    with pytest.raises(NoData, match="no such tensors"):
        tensors(20, name="fc3*", settings=settings)
    with pytest.raises(NoData, match="no tensors; scripts record them"):
        tensors("20/1/3", collection="losses", settings=settings)
    with pytest.raises(BadRequest, match="21 names no run"):
        tensors(21, settings=settings)
