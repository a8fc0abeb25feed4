"""Hostile capsules and backups: each is imported whole, or refused with the file's name, and breaks no reader."""

from __future__ import annotations

import io
import json
import random
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypergauge.core.errors import BadRequest
from hypergauge.sql.ingest.software import SoftwareMetric, SpanRecord, store_software_metrics, store_spans
from hypergauge.sql.queries.summaries import summaries
from hypergauge.sql.runs.run_annotations import remove_runs
from hypergauge.sql.runs.selection import select_runs
from hypergauge.sql.schema.flavour import Flavour
from hypergauge.sql.server.database import Connection, Database
from hypergauge.sql.transfer import capsule
from hypergauge.sql.transfer.archive import Kind, opened
from hypergauge.sql.transfer.backup import backup
from hypergauge.sql.transfer.importing import import_capsule
from hypergauge.sql.transfer.parts import unpacked
from hypergauge.sql.transfer.restore import restore
from tests.support.data.backups import Empty
from tests.support.fuzzing import damaged_bytes, fuzzed, mutated, refusal
from tests.support.world import World

# Values in COPY's text format.
FIELDS = st.sampled_from([
    r"\N", "", "0", "-1", "2147483647", "2147483648", "9223372036854775807", "NaN", "Infinity", "-Infinity", "1e308", "1e-320",
    "infinity", "-infinity", "294276-12-31 23:59:59+00", "4713-01-01 00:00:00+00 BC", "1970-01-01 00:00:00+00", "t", "f", "{}",
    "[]", "null", "3", '{"a": null}', '{"host": 1e400}', '{"a": ' + "[" * 150 + "]" * 150 + "}", "{NULL}", "{NaN,1}", "{{1},{2}}",
    r"\\", r"\0", r"\xff", "\udc80", "a\tb", "x" * 3000, "é", "process", "running", "f" * 32,
])  # fmt: skip


def seed(world: World) -> None:
    start = time.time() // 600 * 600 - 3600
    run = world.run(start, start + 60, gpu="GPU-1")
    world.write(world.gauge("node_load1", [start + at for at in range(60)], [2.0] * 60))
    store_spans(world.connection, run, [SpanRecord("1", None, "train", "phase", None, start, start + 30, 1, "main")])
    store_software_metrics(world.connection, run, [SoftwareMetric("loss", 1, start + 1, 0.5)])
    world.connection.execute("select summarise(run_id) from runs")


@pytest.fixture
def file(world: World, tmp_path: Path) -> Path:
    """A capsule of one run."""
    seed(world)
    capsule.export(world.connection, select_runs(world.connection, ["20"]), tmp_path / "a.capsule")
    return tmp_path / "a.capsule"


def members(file: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(file: Path, content: Mapping[str, bytes]) -> Path:
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return file


def check(path: Path, kind: Kind) -> None:
    def read() -> None:
        with opened(path, kind) as (archive, manifest):
            for table in manifest.tables:
                assert archive.getinfo(table.member)

    message = refusal(read, BadRequest)
    assert message is None or path.name in message
    assert len(message or "") < 1000


@pytest.mark.parametrize("flavour", [Flavour.POSTGRESQL], indirect=True)
@fuzzed(300)
@given(data=st.data())
def test_a_damaged_file_is_read_or_refused(world: World, flavour: Flavour, data: st.DataObject) -> None:
    path = archive_of(world)
    content = members(path)
    manifest = json.loads(content["manifest.json"])
    hostile = path.with_name("hostile.capsule")
    if data.draw(st.booleans()):
        hostile.write_bytes(data.draw(damaged_bytes(path.read_bytes()).map(Shown)))
    else:
        changed = json.dumps(data.draw(mutated(manifest).map(Hidden)).value)
        write(hostile, {**content, "manifest.json": changed.encode(errors="surrogatepass")})
    check(hostile, data.draw(st.sampled_from(["capsule", "backup"])))


class Shown(bytes):
    """Bytes with a short representation in reports of failures."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{len(self)} bytes, {bytes(self[:40])!r}…"


class Hidden:
    """Value with a short representation in reports of failures."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return repr(self.value)[:300]


def archive_of(world: World) -> Path:
    """Return a capsule of the world, written once."""
    path = world.folder / "whole.capsule"
    if not path.exists():
        seed(world)
        path.parent.mkdir(parents=True, exist_ok=True)
        capsule.export(world.connection, select_runs(world.connection, ["20"]), path)
    return path


@pytest.mark.parametrize("flavour", [Flavour.POSTGRESQL], indirect=True)
@fuzzed(100)
@given(data=st.data())
def test_a_damaged_part_is_read_or_refused(world: World, flavour: Flavour, data: st.DataObject) -> None:
    part = members(archive_of(world))["samples/00000.parquet"]
    message = refusal(lambda: unpacked(data.draw(damaged_bytes(part).map(Shown)), 60), ValueError)
    assert len(message or "") < 5000


def read_all(connection: Connection) -> None:
    """Read what lists, comparisons and reports read."""
    runs = select_runs(connection, [])
    summaries(connection, [run.run_id for run in runs])
    for statement in (
        "select * from run_samples", "select * from run_summary", "select * from spans", "select * from software_metrics",
        "select * from runs", "select * from workloads", "select * from experiments", "select * from placements",
        "select * from series", "select * from metrics", "select * from rule_firings", "select * from highlights",
    ):  # fmt: skip
        connection.execute(statement.encode()).fetchall()


def hostile_table(data: st.DataObject, content: dict[str, bytes]) -> dict[str, bytes]:
    """Return the members of an archive with some fields replaced."""
    names = sorted(name for name in content if name.endswith(".copy") and content[name])
    changed = dict(content)
    for _ in range(data.draw(st.integers(1, 2))):
        name = data.draw(st.sampled_from(names))
        rows = [line.split("\t") for line in changed[name].decode(errors="surrogateescape").splitlines()]
        row = rows[data.draw(st.integers(0, min(len(rows), 5) - 1))]
        row[data.draw(st.integers(0, len(row) - 1))] = data.draw(FIELDS)
        text = "".join("\t".join(fields) + "\n" for fields in rows)
        changed[name] = text.encode(errors="surrogateescape")
    return changed


@pytest.mark.flavours
@fuzzed(40)
@given(data=st.data())
def test_an_imported_capsule_breaks_no_reader(file: Path, empty: Empty, flavour: Flavour, data: st.DataObject) -> None:
    there = database(file, empty, flavour)
    hostile = write(file.with_name("hostile.capsule"), hostile_table(data, members(file)))
    message = refusal(lambda: import_capsule(there, hostile), BadRequest)
    assert message is None or "hostile.capsule: " in message, message
    with there.session() as connection:
        read_all(connection)
        remove_runs(connection, [run.run_id for run in select_runs(connection, [])])
        connection.execute("delete from experiments")


_DATABASES: dict[Path, Database] = {}


def database(file: Path, empty: Empty, flavour: Flavour) -> Database:
    """Return the database of all examples of a test."""
    if file not in _DATABASES:
        _DATABASES[file] = empty(flavour).open()
    return _DATABASES[file]


@pytest.mark.slow
@pytest.mark.parametrize("flavour", [Flavour.POSTGRESQL], indirect=True)
def test_a_backup_with_hostile_rows_is_restored_or_refused(world: World, flavour: Flavour, empty: Empty) -> None:
    seed(world)
    whole = world.folder / "a.backup"
    backup(world.database, whole)
    content = members(whole)
    chosen = random.Random(1)
    tables = [name for name in sorted(content) if name.endswith(".copy") and content[name] and b"\\N" in content[name]]
    there = empty(flavour)
    for name, value in [
        (chosen.choice(tables), b"\xff"),
        (chosen.choice(tables), b"x\ty"),
        (tables[0], b"infinity\tx"),
    ]:
        hostile = write(whole.with_name("hostile.backup"), {**content, name: content[name].replace(b"\\N", value, 1)})
        with pytest.raises(BadRequest, match=r"hostile\.backup: ") as refused:
            restore(there, hostile)
        assert refused.value.exit_status == 2
    buffer = io.BytesIO(whole.read_bytes()[:-100])
    (whole.parent / "cut.backup").write_bytes(buffer.getvalue())
    with pytest.raises(BadRequest, match=r"cut\.backup: "):
        restore(there, whole.parent / "cut.backup")
