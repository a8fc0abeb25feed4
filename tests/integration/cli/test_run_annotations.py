"""``bench note``, ``keep`` and ``rm``, and ``bench list --user``."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mlflow.tracking import MlflowClient

from tests.conftest import Command
from tests.support.people import as_person, login
from tests.support.servers.mlflow import mlflow_server
from tests.support.world import LEVELS, World

pytestmark = pytest.mark.flavours

Bench = Callable[..., Any]
GPU = "GPU-00000000-0000-4000-8000-000000000000"


@pytest.fixture
def bench(command: Command, world: World, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Give the command, as `me`, with nothing of MLflow to be found."""
    for name, value in world.database.settings.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("LOGNAME", "me")

    def run(*words: str, status: int = 0) -> Any:
        ended, out, output = command(*words)
        assert ended == status, output + out
        return json.loads(out) if "--json" in words and not status else " ".join((out + output).split())

    return run


def two_runs(world: World, days: int = 0) -> tuple[str, str]:
    """Make two runs side by side on a GPU, with samples of it, of the host and of the first one's processes."""
    start = float(time.time() // 600 * 600 - 3600 - days * 86_400)
    first = world.run(start, start + 100, gpu=GPU)
    second = world.run(start + 50, start + 200, position=2, gpu=GPU)
    times = [start - 20 + at for at in range(300)]
    world.write(
        world.gauge("bench_gpu_power_watts", times, [70.0] * 300, {"UUID": GPU}, "nvml"),
        world.gauge("node_load1", times, [1.0] * 300),
        world.gauge("bench_process_threads", times[20:120], [4.0] * 100, {"run_id": first}),
    )
    world.connection.execute("update runs set mlflow_run_id = null")
    world.connection.execute("select summarise(run_id) from runs")
    world.refresh()
    return first, second


def counts(world: World, relation: str = "samples") -> dict[str, int]:
    """Return how many samples each series has, at a level."""
    n = "count(*)" if relation == "samples" else "sum(n)::bigint"
    return dict(
        world.connection.execute(
            f"select metric, {n} from {relation} join series using (series_id) group by metric".encode()
        ).fetchall()
    )


def test_notes_are_added_replaced_and_taken_away(bench: Bench, world: World) -> None:
    two_runs(world)
    assert "20/1/1 has no note" in bench("note", "20/1/1")
    bench("note", "20/1/1", "the baseline of [table 2]")
    assert "20/1/1 has a note: --append adds to it, --force replaces it" in bench("note", "20/1/1", "x", status=2)
    output = bench("note", "20/1/1", "seed 3", "--append", "--json")
    assert output["note"] == "the baseline of [table 2]\n\nseed 3"
    assert [run["note"] for run in bench("list", "20", "--json")] == [output["note"], None]
    assert [run["note"] for run in bench("compare", "20", "--json")["runs"]] == [output["note"], None]
    assert "the baseline of [table 2]" in bench("list", "20")
    assert (
        output["note"]
        in dict(world.connection.execute("select what, value from run_card(%s)", (output["run_id"],))).values()
    )
    bench("report", "20", "-o", "a.html")
    assert "the baseline" in Path("a.html").read_text()
    assert bench("note", "20/1/1", "another", "--force") == "another"
    assert bench("note", "20/1/1") == "another"
    bench("note", "20/1/1", "--remove")
    assert bench("note", "20/1/1", "--json")["note"] is None
    bench("note", "20/1/1", "two", "words")
    assert bench("note", "20/1/1") == "two words"
    for words, why in {
        ("20/1/1", "x", "--remove"): "--remove takes no text",
        ("20/1/1", "--append"): "the text is missing: bench note 20/1/1 --append 'TEXT'",
        ("20/1/1", "  "): "the note is empty",
        ("20/1/1", "x", "--append", "--force"): "--append and --force exclude each other",
        ("20/1/9", "x"): "20/1/9 names no run; there are the runs 20/1/1, 20/1/2",
        ("21/1/1", "x"): "21/1/1 names no run; existing experiments: 20",
        ("20", "x"): "20 names 2 runs; name one, such as 20/1/1",
        ("the baseline", "20/1/1"): "'the baseline' selects nothing: write EXPERIMENT",
        (): "Missing argument 'RUN'",
    }.items():
        assert why in bench("note", *words, status=2), words


def test_whose_runs_they_are(bench: Bench, world: World) -> None:
    two_runs(world)
    world.connection.execute("update runs set owner = 'benedict' where position = 2")
    assert [run["owner"] for run in bench("list", "20", "--user", "me", "--json")] == ["me"]
    assert [run["runs"] for run in bench("list", "--user", "benedict", "--json")] == [1]
    assert "benedict" in bench("list", "20"), "the owner is shown where there are several"
    assert "did you mean 'benedict'?" in bench("list", "--user", "bendict", status=2)
    world.run(time.time() - 10, time.time(), experiment=21)
    assert "benedict has no run in 21" in bench("list", "21", "--user", "benedict", status=1)
    assert [one["experiment_id"] for one in bench("list", "--user", "benedict", "--json")] == [20]


def test_a_removed_run_takes_its_samples_along_and_no_others(bench: Bench, world: World, tmp_path: Path) -> None:
    _, second = two_runs(world)
    before = {level: counts(world, level) for level in ("samples", *LEVELS)}
    assert before["samples"] == {"bench_gpu_power_watts": 300, "node_load1": 300, "bench_process_threads": 100}
    summary = world.connection.execute(
        "select * from run_summary where run_id = %s order by 2, 3, 4", (second,)
    ).fetchall()
    assert [one["run"] for one in bench("rm", "20/1/1", "--dry-run", "--json")["runs"]] == ["20/1/1"]
    assert counts(world) == before["samples"]
    assert bench("rm", "20/1/1", "--yes", "--json")["samples"] == 50 + 50 + 100, (
        "alone for 50 s, on the GPU and the host"
    )
    for level in ("samples", *LEVELS):
        assert counts(world, level) == {"bench_gpu_power_watts": 250, "node_load1": 250}, level
    world.refresh()
    assert counts(world, "samples_10m") == {"bench_gpu_power_watts": 250, "node_load1": 250}
    assert world.connection.execute("select run_id, shared from run_flags").fetchall() == [(second, True)]
    after = world.connection.execute(
        "select * from run_summary where run_id = %s order by 2, 3, 4", (second,)
    ).fetchall()
    assert after == summary
    world.write()  # a collector that looks whether tags have changed
    assert counts(world) == {"bench_gpu_power_watts": 250, "node_load1": 250}
    assert bench("rm", "20", "--yes", "--json")["samples"] == 300
    assert bench("list", "--json") == []
    assert counts(world) == {"bench_gpu_power_watts": 100, "node_load1": 100}, "samples outside of all runs"


def test_a_removed_run_takes_its_folder_along(bench: Bench, world: World) -> None:
    home = world.database.settings.home
    first, second = two_runs(world)
    folders = [home / "runs" / first, home / "jobs" / "7" / "runs" / second]  # one of them a job's
    for folder in folders:
        folder.mkdir(parents=True)
    bench("rm", "20/1/2", "--yes")
    assert [folder.exists() for folder in folders] == [True, False]
    bench("rm", "20/1/1", "--yes")
    assert not folders[0].exists()


def test_samples_below_the_raw_cutoff_are_removed_too(bench: Bench, world: World) -> None:
    two_runs(world, days=5)
    world.connection.execute("update retention set keep_raw = '1 day'")
    world.connection.execute("call maintain()")
    assert counts(world) == {}
    assert counts(world, "samples_10s") == {
        "bench_gpu_power_watts": 300,
        "node_load1": 300,
        "bench_process_threads": 100,
    }
    bench("rm", "20", "--yes")
    world.refresh()
    for level in LEVELS:
        assert counts(world, level) == {"bench_gpu_power_watts": 100, "node_load1": 100}, level


def test_protected_runs_keep_all_selected_runs(bench: Bench, world: World) -> None:
    first, _ = two_runs(world)
    assert "20/1/1: protected" in bench("keep", "20/1/1")
    assert "20/1/1 (me): protected; `bench keep --undo`" in bench("rm", "20", "--yes", status=2)
    assert bench("keep", "20/1/1", "--undo", "--json") == [{"run": "20/1/1", "run_id": first, "keep": False}]
    world.connection.execute("update runs set owner = 'ben' where position = 2")
    assert "20/1/2 (ben): of another user; --others" in bench("rm", "20", "--yes", status=2)
    world.run(time.time() - 10, workload=2)
    assert "20/2/1 (me): not ended; `bench stop`" in bench("rm", "20", "--yes", "--others", status=2)
    assert "there is no terminal to confirm on: --yes" in bench("rm", "20/1", "--others", status=2)
    assert len(bench("list", "20", "--json")) == 3
    bench("rm", "20/1", "--others", "--yes")
    assert [run["run"] for run in bench("list", "20", "--json")] == ["20/2/1"]


def test_who_may_only_read_changes_nothing(bench: Bench, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    two_runs(world)
    for role in ("bench_reader", "bench_reader_own"):
        with login(world.database.dsn, role) as ann:
            world.connection.execute("update runs set owner = %s", (ann,))
            as_person(world.database.dsn, ann).close()
            monkeypatch.setenv("BENCH_DSN", f"{world.database.dsn} user={ann}")
            for words in (("note", "20/1/1", "x"), ("keep", "20/1/1"), ("rm", "20", "--yes", "--others")):
                assert f"{ann} may not" in bench(*words, status=1)
    assert world.connection.execute("select count(*) from runs where not keep and note is null").fetchone() == (2,)


@pytest.mark.slow
def test_mlflow_forgets_a_removed_run_and_its_artifacts(
    bench: Bench, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = two_runs(world)
    with mlflow_server(tmp_path) as port:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{port}")
        client = MlflowClient(f"http://127.0.0.1:{port}")
        theirs = client.create_run("0", tags={"hypergauge.run_id": first}).info.run_id
        client.log_text(theirs, "words", "output.log")
        world.connection.execute("update runs set mlflow_run_id = %s where run_id = %s", (theirs, first))
        monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:1")
        assert "MLflow" in bench("rm", "20/1/1", "--yes", status=1)
        assert len(bench("list", "20", "--json")) == 2, "what MLflow has is not left behind"
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{port}")
        bench("rm", theirs[:12] if any(map(str.isalpha, theirs[:12])) else "20/1/1", "--yes")
        assert client.get_run(theirs).info.lifecycle_stage == "deleted"
        assert not list((tmp_path / "artifacts").rglob("output.log"))
