"""Samples as Parquet and CSV: those of `run_samples`, in types that other programs know."""

from __future__ import annotations

import csv
import gzip
import math
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from hypergauge.core.errors import NoData
from hypergauge.insight.export.samples_file import write_samples
from hypergauge.sql.runs.selection import select_runs
from tests.support.world import World

TYPES = {
    "experiment_id": pa.int32(), "workload": pa.int32(), "run_id": pa.string(), "position": pa.int32(), "run": pa.string(),
    "quantity": pa.string(), "metric": pa.string(), "unit": pa.string(), "scope": pa.string(), "host": pa.string(),
    "device": pa.string(), "time": pa.timestamp("us", tz="UTC"), "elapsed": pa.float64(), "value": pa.float64(),
    "dt": pa.float32(),
}  # fmt: skip


def expected(world: World, *runs: str) -> list[tuple[Any, ...]]:
    """Return the rows of `run_samples`, in an order of their own."""
    rows = world.connection.execute(
        "select * from run_samples where run_id = any(%s) order by run_id, quantity, metric, device, scope, time, value",
        (list(runs),),
    ).fetchall()
    assert rows
    return rows


def in_order(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    names = list(TYPES)
    by = [names.index(name) for name in ("run_id", "quantity", "metric", "device", "scope", "time", "value")]
    return sorted(rows, key=lambda row: [(row[place] is None, row[place]) for place in by])


def all_runs(world: World) -> list[str]:
    return [run for (run,) in world.connection.execute("select run_id from runs").fetchall()]


@pytest.mark.slow
def test_parquet_has_every_row_in_types_of_its_own(full: World, tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    written = write_samples(full.connection, select_runs(full.connection, []), file)
    table = parquet.read_table(file)
    types = {f.name: f.type.value_type if pa.types.is_dictionary(f.type) else f.type for f in table.schema}
    assert types == TYPES
    rows = [tuple(row.values()) for row in table.to_pylist()]
    assert written == len(rows)
    assert in_order(rows) == expected(full, *all_runs(full))


@pytest.mark.slow
def test_csv_has_the_same_rows_for_pythons_own_reader(full: World, tmp_path: Path) -> None:
    runs = select_runs(full.connection, [])
    write_samples(full.connection, runs, tmp_path / "a.csv")
    write_samples(full.connection, runs, tmp_path / "a.csv.gz")
    content = (tmp_path / "a.csv").read_bytes()
    assert gzip.decompress((tmp_path / "a.csv.gz").read_bytes()) == content
    header, *lines = csv.reader(content.decode().splitlines())
    assert header == list(TYPES)

    def read(name: str, text: str) -> object:
        if text == "" and name in ("device", "value"):
            return None
        if TYPES[name] == pa.string():
            return text
        if name == "time":
            return datetime.fromisoformat(text)
        return int(text) if TYPES[name] == pa.int32() else float(text)

    rows = [tuple(read(name, text) for name, text in zip(header, line, strict=True)) for line in lines]
    assert in_order(rows) == expected(full, *all_runs(full))


def test_runs_follow_each_other_and_each_series_is_in_the_order_of_time(full: World, tmp_path: Path) -> None:
    runs = select_runs(full.connection, [])
    write_samples(full.connection, runs, tmp_path / "a.parquet")
    rows = parquet.read_table(tmp_path / "a.parquet").to_pylist()
    assert list(dict.fromkeys(row["run"] for row in rows)) == [run.label for run in runs]
    keys = [(row["run"], row["quantity"], row["metric"], row["device"]) for row in rows]
    assert len(dict.fromkeys(keys)) == sum(1 for one, other in zip([None, *keys], keys, strict=False) if one != other)
    for key in dict.fromkeys(keys):
        times = [row["time"] for row, own in zip(rows, keys, strict=True) if own == key]
        assert times == sorted(times)


def test_units_are_canonical_and_a_later_attempt_is_named(world: World, tmp_path: Path) -> None:
    start = time.time() // 1 - 600
    world.run(start, start + 60, gpu="GPU-1")
    again = world.run(start + 100, start + 160, gpu="GPU-1", attempt=2)
    times = [start + 101.25 + at for at in range(3)]
    world.write(world.gauge("DCGM_FI_DEV_FB_USED", times, [1.0, math.nan, 3.0], {"UUID": "GPU-1"}, dt=0.5))
    write_samples(world.connection, select_runs(world.connection, ["20/1/1"]), tmp_path / "a.parquet")
    rows = parquet.read_table(tmp_path / "a.parquet").to_pylist()
    assert [(row["value"], row["elapsed"]) for row in rows] == [(2.0**20, 1.25), (None, 2.25), (3 * 2.0**20, 3.25)]
    progress = {
        name: rows[0][name] for name in ("run_id", "run", "quantity", "metric", "unit", "scope", "host", "device", "dt")
    }
    assert progress == {
        "run_id": again, "run": "20/1/1", "quantity": "gpu_memory_used", "metric": "DCGM_FI_DEV_FB_USED",
        "unit": "bytes", "scope": "instance", "host": "node1", "device": "GPU-1", "dt": 0.5,
    }  # fmt: skip


def test_only_the_selected_quantities(full: World, tmp_path: Path) -> None:
    runs = select_runs(full.connection, [])
    progress: list[int] = []
    written = write_samples(full.connection, runs, tmp_path / "a.parquet", ["gpu_power"], progress.append)
    table = parquet.read_table(tmp_path / "a.parquet")
    assert set(table.column("quantity").to_pylist()) == {"gpu_power"}
    assert progress[-1] == written == table.num_rows
    assert progress == sorted(progress)


def test_without_samples_there_is_no_file(world: World, tmp_path: Path) -> None:
    start = time.time() - 600
    world.run(start, start + 60)
    for name in ("a.parquet", "a.csv", "a.csv.gz"):
        with pytest.raises(NoData, match="no samples"):
            write_samples(world.connection, select_runs(world.connection, []), tmp_path / name)
    world.connection.execute("update runs set exporters = '{}'")
    with pytest.raises(NoData, match="since their rows chose no exporter"):
        write_samples(world.connection, select_runs(world.connection, []), tmp_path / "a.csv")
    assert [path.name for path in tmp_path.iterdir() if path.name != "spool"] == []
