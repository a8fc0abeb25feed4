"""The commands `export` and `import`: messages, refusals and interruptions."""

from __future__ import annotations

import json
import os
import pty
import re
import resource
import subprocess
import time
import zipfile
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import conninfo

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest
from hypergauge.sql.runs.selection import select_runs
from hypergauge.sql.schema import migrate
from hypergauge.sql.schema.flavour import Flavour
from hypergauge.sql.server.database import Database
from hypergauge.sql.transfer import capsule
from hypergauge.sql.transfer.archive import BadBackup, opened
from hypergauge.sql.transfer.backup import backup
from hypergauge.sql.transfer.importing import import_capsule
from hypergauge.sql.transfer.restore import restore
from tests.support.data.backups import OTHER, Empty, rewritten, waiting
from tests.support.home import COMMAND
from tests.support.waiting import wait_for
from tests.support.world import World


@pytest.fixture
def file(world: World, tmp_path: Path) -> Path:
    """A capsule of two runs of experiment 20."""
    start = time.time() // 600 * 600 - 3600
    for position in (1, 2):
        world.run(start, start + 600, position=position, gpu="GPU-1")
    times = [start + at for at in range(600)]
    world.write(world.gauge("DCGM_FI_DEV_POWER_USAGE", times, [250.0 + at % 7 for at in range(600)], {"UUID": "GPU-1"}))
    world.connection.execute("select summarise(run_id) from runs")
    capsule.export(world.connection, select_runs(world.connection, ["20"]), tmp_path / "a.capsule")
    return tmp_path / "a.capsule"


def runs(database: Database) -> int:
    with database.session() as connection:
        row = connection.execute("select count(*) from runs").fetchone()
    assert row is not None
    return int(row[0])


def environment(database: Database) -> dict[str, str]:
    others = {name: value for name, value in os.environ.items() if not name.startswith(("BENCH_", "MLFLOW_"))}
    return {**others, **database.settings.environment()}


def bench(database: Database, *words: str | Path, status: int = 0) -> str:
    done = subprocess.run(
        [*COMMAND, *map(str, words)], env=environment(database), capture_output=True, text=True, check=False
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
def test_the_commands_report_what_they_did(world: World, file: Path, flavour: Flavour, empty: Empty) -> None:
    there, out = empty(OTHER[flavour]).open(), file.parent
    name = str(out / "b.capsule")
    assert f"Wrote 2 runs with 600 samples to {name}, " in bench(world.database, "export", "20", "-o", name)
    written = json.loads(bench(world.database, "export", "20", "-o", name, "--json"))
    assert written == {"file": name, "runs": 2, "samples": 600, "notes": []}
    assert "Imported 2 runs with 600 samples; see `bench compare 20`" in bench(there, "import", name)
    assert "Nothing to do: the database has all of its 2 runs" in bench(there, "import", name)
    assert json.loads(bench(there, "import", name, "--json")) == {
        "file": name, "experiments": [], "runs": 0, "here": 2, "samples": 0, "notes": [],
    }  # fmt: skip
    compared = [json.loads(bench(one, "compare", "20", "--json")) for one in (world.database, there)]
    assert [row["listeners"] for row in compared[0]["quality"]] == [["host"], ["host"]]
    assert compared[0] == compared[1]
    assert "Wrote 1,200 samples of 2 runs to " in bench(world.database, "export", "20", "-o", out / "a.csv")
    samples = json.loads(
        bench(world.database, "export", "20/1/1", "-o", out / "a.parquet", "-m", "gpu_power", "--json")
    )
    assert samples == {"file": str(out / "a.parquet"), "runs": 1, "samples": 600}


@pytest.mark.slow
def test_an_empty_name_is_refused(world: World, file: Path) -> None:
    def refused(*words: str) -> str:
        return " ".join(bench(world.database, "export", "20", *words, status=2).split())

    assert "'samples' has none of .parquet, .csv, .csv.gz, .capsule" in refused("-o", "samples")
    assert "(did you mean '.parquet'?)" in refused("-o", "samples.parq")
    assert "'a.json' is for a trace: add --trace" in refused("-o", "a.json")
    for name, *options in (("a.csv",), ("a.parquet",), ("a.capsule",), ("a.json", "--trace"), ("t.csv", "--tensors")):
        assert f"there is no folder 'no' to write {name} to" in refused("-o", f"no/{name}", *options)
    assert "a capsule holds all of its runs: -m, --from, --to and --phase go with samples and traces" in refused(
        "-o", "a.capsule", "-m", "x"
    )
    assert "no samples of 'gpu_powr' (did you mean 'gpu_power'?)" in refused("-o", "a.csv", "-m", "gpu_powr")
    assert "names no run; existing experiments: 20" in bench(world.database, "export", "9", "-o", "a.csv", status=2)


@pytest.mark.slow
def test_a_terminal_sees_how_far_it_has_come(world: World, file: Path, flavour: Flavour, empty: Empty) -> None:
    def seen(database: Database, *words: str | Path) -> str:
        leader, follower = pty.openpty()
        with subprocess.Popen(
            [*COMMAND, *map(str, words)], env=environment(database) | {"TERM": "xterm", "COLUMNS": "150"},
            stderr=follower, stdout=subprocess.DEVNULL,
        ) as process:  # fmt: skip
            os.close(follower)
            content = b""
            try:
                while block := os.read(leader, 65536):
                    content += block
            except OSError:  # it has closed its side
                pass
        os.close(leader)
        assert process.returncode == 0, content
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|━", "", content.decode())

    assert "1,200 of about 1,200 samples" in seen(world.database, "export", "20", "-o", file.parent / "a.csv")
    assert "600 of about 600 samples" in seen(world.database, "export", "20", "-o", file)
    assert "600 of 600 samples" in seen(empty(OTHER[flavour]).open(), "import", file)


def test_a_full_disk_leaves_no_file(world: World, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")  # which would be cut short too, and be read by others

    def bound() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    for name in ("b.capsule", "b.parquet", "b.csv", "b.csv.gz"):
        done = subprocess.run(
            [*COMMAND, "export", "20", "-o", str(file.parent / name)], env=environment(world.database),
            capture_output=True, text=True, check=False, preexec_fn=bound,
        )  # fmt: skip
        assert done.returncode == 1
        assert "File too large" in done.stderr
        assert len(done.stderr.splitlines()) == 1, done.stderr
        assert [path.name for path in file.parent.glob("*b.*")] == []


def test_a_file_that_is_no_whole_capsule_is_refused(world: World, file: Path, empty: Empty, tmp_path: Path) -> None:
    there = empty(Flavour.POSTGRESQL).open()
    whole = file.read_bytes()
    with zipfile.ZipFile(file) as archive:
        part = archive.getinfo("samples/00000.parquet")
    at = part.header_offset + 30 + len(part.filename) + part.compress_size // 2
    bad = tmp_path / "bad.capsule"
    cases = {
        b"": "not a capsule, or cut off",
        b"time,value\n": "not a capsule, or cut off",
        whole[: len(whole) // 2]: "not a capsule, or cut off",
        whole[:at]
        + bytes([255 - whole[at]])
        + whole[at + 1 :]: r"damaged: the checksum of samples/00000.parquet does not fit",
    }
    for content, message in cases.items():
        bad.write_bytes(content)
        with pytest.raises(BadBackup, match=rf"bad.capsule: {message}"):
            import_capsule(there, bad)
    assert "a folder, not a capsule" in bench(there, "import", tmp_path, status=2)
    assert "there is no such file" in bench(there, "import", tmp_path / "none.capsule", status=2)
    backup(world.database, tmp_path / "all.backup")
    assert "a backup, not a capsule: `bench db restore` reads it" in bench(
        there, "import", tmp_path / "all.backup", status=2
    )
    with pytest.raises(BadBackup, match="`bench import`"):
        restore(empty(Flavour.POSTGRESQL), file)
    with opened(file, "capsule") as (_, manifest):
        parts = [manifest.parts[0] + 1]
    with pytest.raises(BadRequest, match=r"600 .*601"):
        import_capsule(there, rewritten(file, parts=parts))
    with pytest.raises(BadBackup, match=r"samples/00001.parquet is missing"):
        import_capsule(there, rewritten(file, parts=[600, 600]))
    assert runs(there) == 0


def test_one_of_a_newer_release_is_refused_and_one_of_an_older_gets_what_is_new(
    file: Path, flavour: Flavour, empty: Empty, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = empty(OTHER[flavour]).open()
    with pytest.raises(BadBackup, match=r"it is of schema version 999 \(hypergauge .*\), this release knows .*update"):
        import_capsule(there, rewritten(file, schema_version=999, unheard_of=1))
    known = migrate.migrations

    def with_one_more(flavour: Flavour) -> list[migrate.Migration]:
        return [
            *known(flavour),
            migrate.Migration(999, "color", "alter table runs add color text not null default 'red'"),
        ]

    monkeypatch.setattr(migrate, "migrations", with_one_more)
    later = empty(flavour).open()
    import_capsule(later, file)
    with later.session() as connection:
        assert connection.execute("select distinct color from runs").fetchall() == [("red",)]


def test_an_experiment_belongs_to_the_file_that_made_it(
    file: Path, flavour: Flavour, empty: Empty, tmp_path: Path
) -> None:
    there = empty(OTHER[flavour]).open()
    with there.session() as connection:
        here = World(there, tmp_path / "there", connection)
        start = time.time() - 600
        here.run(start, start + 60, experiment=20)
        connection.execute("update experiments set source = 'mine.csv'")
        message = (
            "a.capsule: experiment 20 belongs to mine.csv here, and to test.csv in the capsule; "
            "the next free id is 21: give --into 21"
        )
        assert message in bench(there, "import", file, status=2)
        assert runs(there) == 1
        assert "see `bench compare 21`" in bench(there, "import", file, "--into", "21")
        assert [run.label for run in select_runs(connection, ["21"])] == ["21/1/1", "21/1/2"]
        assert import_capsule(there, file).runs == 0
        # The same file, but another run has that place in it.
        connection.execute("delete from experiments where experiment_id = 21")
        connection.execute("update experiments set source = 'test.csv'")
        with pytest.raises(
            BadRequest, match=r"20/1/1 is another run here \([0-9a-f]{8}\).*: give --into 21, which is free"
        ):
            import_capsule(there, file)
        with pytest.raises(BadRequest, match="20/1/1 is another run here"):
            import_capsule(there, file, into=20)
        assert runs(there) == 1
        import_capsule(there, file, into=21)
        assert [run.label for run in select_runs(connection, ["21"])] == ["21/1/1", "21/1/2"]


def test_of_several_experiments_none_can_be_named(world: World, empty: Empty, tmp_path: Path) -> None:
    start = time.time() - 600
    for experiment in (20, 21):
        world.run(start, start + 60, experiment=experiment)
    capsule.export(world.connection, select_runs(world.connection, []), tmp_path / "a.capsule")
    with pytest.raises(BadRequest, match=r"20, 21.*--into"):
        import_capsule(empty(Flavour.POSTGRESQL).open(), tmp_path / "a.capsule", into=30)


def test_a_differing_catalog_is_named(world: World, file: Path, empty: Empty) -> None:
    there = empty(Flavour.POSTGRESQL).open()
    with there.session() as connection:
        connection.execute("update metrics set unit = 'milliwatts' where metric = 'DCGM_FI_DEV_POWER_USAGE'")
        connection.execute("delete from metrics where metric = 'DCGM_FI_DEV_GPU_TEMP'")
    [note] = import_capsule(there, file).notes
    assert note == (
        "DCGM_FI_DEV_POWER_USAGE is gpu_power in milliwatts here, and gpu_power in watts in the capsule: "
        "what is read here is as it is here"
    )


@pytest.mark.parametrize("how", ["backend", "command"])
def test_an_interruption_leaves_all_or_nothing(file: Path, flavour: Flavour, empty: Empty, how: str) -> None:
    there = empty(OTHER[flavour]).open()
    name = conninfo.conninfo_to_dict(there.dsn)["dbname"]
    with there.session() as other, there.session() as watcher:
        other.execute("begin; lock table bench.samples in share mode")
        with subprocess.Popen(
            [*COMMAND, "import", str(file)], env=environment(there), stderr=subprocess.PIPE, text=True
        ) as process:
            wait_for(lambda: waiting(watcher), "an import that waits")
            if how == "command":
                process.kill()
            watcher.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s and wait_event_type = 'Lock'",
                (name,),
            )
            if how == "backend":  # it connects anew, and does all of it again
                other.execute("rollback")
            _, errors = process.communicate()
        assert process.returncode == (0 if how == "backend" else -9), errors
        other.execute("rollback")
    assert runs(there) == (2 if how == "backend" else 0)
    assert import_capsule(there, file).samples == (0 if how == "backend" else 600)
    assert runs(there) == 2


def test_two_imports_at_a_time_are_one(file: Path, flavour: Flavour, empty: Empty) -> None:
    there = empty(OTHER[flavour]).open()
    command: list[Any] = [*COMMAND, "import", str(file), "--json"]
    started = [subprocess.Popen(command, env=environment(there), stdout=subprocess.PIPE, text=True) for _ in range(3)]
    brought = sorted(json.loads(process.communicate()[0])["runs"] for process in started)
    assert brought == [0, 0, 2]


def test_a_reader_exports_and_a_writer_imports(world: World, file: Path, flavour: Flavour, empty: Empty) -> None:
    def as_(role: str, database: Database) -> Database:
        own = conninfo.make_conninfo(database.dsn, options=f"-crole={role}")
        return Database(Settings(home=file.parent, dsn=own)).open()

    with as_("bench_reader", world.database).session() as connection:
        assert connection.execute("select current_user").fetchone() == ("bench_reader",)
        written = capsule.export(connection, select_runs(connection, ["20"]), file.parent / "b.capsule")
        assert written.samples == 600
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("delete from runs")
    there = empty(OTHER[flavour]).open()
    assert import_capsule(as_("bench_writer", there), file).samples == 600
    with there.session() as connection:
        connection.execute("call refresh()")
        row = connection.execute("select sum(n)::int from samples_10m").fetchone()
    assert row == (600,)
