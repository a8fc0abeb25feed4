"""Capsules with values out of bounds, in both flavours: each is refused with file, table, row and column."""

from __future__ import annotations

import io
import os
import re
import subprocess
import time
import zipfile
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from hypergauge.core.errors import BadRequest
from hypergauge.sql.ingest.software import SoftwareMetric, SpanRecord, store_software_metrics, store_spans
from hypergauge.sql.runs.selection import select_runs
from hypergauge.sql.schema.flavour import Flavour
from hypergauge.sql.server.database import Database
from hypergauge.sql.transfer import capsule
from hypergauge.sql.transfer.importing import import_capsule
from tests.support.data.backups import Empty, altered
from tests.support.home import COMMAND
from tests.support.world import World

pytestmark = pytest.mark.flavours

BASE = 1_700_000_000.0


@pytest.fixture
def file(world: World, tmp_path: Path) -> Path:
    """A capsule of one run with samples, spans and logged values."""
    start = time.time() // 600 * 600 - 3600
    run = world.run(start, start + 60)
    world.write(world.gauge("node_load1", [start + at for at in range(60)], [2.0] * 60))
    store_spans(world.connection, run, [
        SpanRecord("1", None, "train", "phase", None, start, start + 30, 1, "main"),
        SpanRecord("2", "1", "step", "step", 1, start, start + 10, 1, "main"),
    ])  # fmt: skip
    store_software_metrics(world.connection, run, [SoftwareMetric("loss", 1, start + 1, 0.5)])
    world.connection.execute("select summarise(run_id) from runs")
    capsule.export(world.connection, select_runs(world.connection, ["20"]), tmp_path / "a.capsule")
    return tmp_path / "a.capsule"


def with_value(position: int, column: str, value: str, rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """Return rows with another value in the row at `position`."""
    changed = [dict(row) for row in rows]
    changed[position][column] = value
    return changed


VALUES = [
    ("runs", 0, "started_at", "infinity"),
    ("runs", 0, "started_at", "294276-01-01 00:00:00+00"),
    ("runs", 0, "ended_at", "infinity"),
    ("runs", 0, "started_at", "0044-03-15 00:00:00+00 BC"),
    ("runs", 0, "started_at", "2100-01-01 00:00:00+00"),  # its end is earlier
    ("experiments", 0, "created_at", "-infinity"),
    ("experiments", 0, "experiment_id", "-1"),
    ("workloads", 0, "ended_at", "infinity"),
    ("placements", 0, "started_at", "infinity"),
    ("run_sets", 0, "ended_at", "9999-12-31 23:59:59+00"),
    ("runs", 0, "attempt", "2147483647"),
    ("spans", 1, "started_at", "infinity"),
    ("spans", 1, "data_wait", "NaN"),
    ("software_metrics", 0, "time", "-infinity"),
    ("software_metrics", 0, "value", "Infinity"),
    ("software_metrics", 0, "elapsed", "NaN"),
    ("stored_summaries", 0, "mean", "NaN"),
    ("stored_summaries", 0, "seconds", "-1"),
    ("metrics", 0, "scale", "1e300"),
    ("runs", 0, "params", "[1]"),
    ("runs", 0, "params", '{"lr": ' + "[" * 3000 + "]" * 3000 + "}"),
    ("runs", 0, "params", '{"lr": 1e5000}'),
    ("runs", 0, "intervals", '{"host": "soon"}'),
    ("runs", 0, "intervals", '{"host": -1}'),
]


def runs(database: Database) -> int:
    with database.session() as connection:
        return len(select_runs(connection, []))


def test_a_value_out_of_bounds_is_refused_with_its_place(file: Path, flavour: Flavour, empty: Empty) -> None:
    there = empty(flavour).open()
    for table, position, column, value in VALUES:
        shown = "ended_at" if value.startswith("2100") else column
        message = rf"^{re.escape(str(file.parent))}/altered-a\.capsule: {table}, row {position + 1}: {shown} is out of bounds: "
        with pytest.raises(BadRequest, match=message) as refused:
            import_capsule(there, altered(file, table, partial(with_value, position, column, value)))
        assert refused.value.exit_status == 2
        assert len(str(refused.value)) < 500, value[:20]
    assert runs(there) == 0
    assert import_capsule(there, file).runs == 1


@pytest.mark.parametrize(
    ("table", "column", "value", "names"),
    [
        ("runs", "run_id", "x", "runs_run_id_check"),
        ("runs", "status", "asleep", "runs_status_check"),
        ("runs", "started_at", "soon", "COPY runs, line 1, column started_at"),
        ("runs", "params", "{", "COPY runs, line 1, column params"),
        ("runs", "params", "[" * 100_000, "stack depth"),
        ("workloads", "workload_id", "99999999999", "COPY workloads, line 1, column workload_id"),
        ("spans", "data_wait", "-1", "spans_data_wait_check"),
    ],
)
def test_a_value_of_another_type_is_refused_with_its_place(
    file: Path, flavour: Flavour, empty: Empty, table: str, column: str, value: str, names: str
) -> None:
    there = empty(flavour).open()
    with pytest.raises(BadRequest, match=rf"altered-a\.capsule: .*{names}") as refused:
        import_capsule(there, altered(file, table, partial(with_value, 0, column, value)))
    assert refused.value.exit_status == 2
    assert runs(there) == 0


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("time", [BASE, 9e12], "row 2: time is out of bounds"),
        ("time", [BASE, -7e10], "row 2: time is out of bounds"),
        ("time", [BASE, None], "has a sample without time"),
        ("dt", [1.0, float("nan")], "row 2: dt is out of bounds"),
        ("dt", [-1.0, 1.0], "row 1: dt is out of bounds"),
        ("dt", [1.0, float("inf")], "row 2: dt is out of bounds"),
    ],
)
def test_a_sample_out_of_bounds_is_refused_with_its_place(
    file: Path, flavour: Flavour, empty: Empty, column: str, values: list[float | None], message: str
) -> None:
    there = empty(flavour).open()
    with zipfile.ZipFile(file) as source, zipfile.ZipFile(file.with_name("b.capsule"), "w") as target:
        for name in source.namelist():
            content = source.read(name)
            if name == "samples/00000.parquet":
                table = pq.read_table(io.BytesIO(content))
                field = table.schema.field(column)
                given = values + table[column].to_pylist()[2:] if column == "dt" else values + [BASE] * (len(table) - 2)
                numbers = [None if one is None else int(one * 1e6) for one in given] if column == "time" else given
                array = (
                    pa.array(numbers, pa.int64()).cast(field.type)
                    if column == "time"
                    else pa.array(numbers, field.type)
                )
                sink = io.BytesIO()
                pq.write_table(table.set_column(table.schema.get_field_index(column), field, array), sink)
                content = sink.getvalue()
            target.writestr(name, content)
    with pytest.raises(BadRequest, match=rf"b\.capsule: samples/00000\.parquet {message}"):
        import_capsule(there, file.with_name("b.capsule"))
    assert runs(there) == 0


@pytest.mark.parametrize("flavour", [Flavour.POSTGRESQL], indirect=True)
def test_the_command_ends_with_status_2_and_no_traceback(file: Path, flavour: Flavour, empty: Empty) -> None:
    there = empty(flavour).open()
    hostile = altered(file, "runs", partial(with_value, 0, "ended_at", "infinity"))
    others = {name: value for name, value in os.environ.items() if not name.startswith(("BENCH_", "MLFLOW_"))}
    done = subprocess.run(
        [*COMMAND, "import", str(hostile)], env={**others, **there.settings.environment()}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "row 1: ended_at" in " ".join(done.stderr.split())
