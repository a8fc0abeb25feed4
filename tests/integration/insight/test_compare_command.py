"""Columns and forms of the output of `bench compare`."""

from __future__ import annotations

import csv
import io
import json
import time

import pytest

from hypergauge.sql.ingest.software import SoftwareMetric, SpanRecord, store_software_metrics, store_spans
from hypergauge.sql.schema.flavour import Flavour
from tests.conftest import Command
from tests.support.data.trainings import tensor_set, tensor_step
from tests.support.world import World

pytestmark = pytest.mark.parametrize("flavour", [Flavour.POSTGRESQL], indirect=True, ids=["postgresql"])

LOGGED = ("training_score", "z", "lr", "val_accuracy", "epoch_time", "y", "x", "val_loss")
# A condition may name `epoch_time`, so the logged one has a name of its own.
NAMES = tuple("logged_epoch_time" if key == "epoch_time" else key for key in LOGGED)


@pytest.fixture
def bench(command: Command, world: World, monkeypatch: pytest.MonkeyPatch) -> Command:
    """The command on two runs that have logged eight software metrics."""
    start = time.time() // 600 * 600 - 3600
    for position in (1, 2):
        run_id = world.run(start, start + 10 * position, position=position)
        store_software_metrics(
            world.connection, run_id, [SoftwareMetric(key, 1, start + 1, position / 10) for key in LOGGED]
        )
    for name, value in world.database.settings.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("COLUMNS", raising=False)
    return command


def heading(text: str) -> list[str]:
    return next(line for line in text.splitlines() if "status" in line).split()


def test_loss_and_accuracy_come_first_and_autologged_names_last(bench: Command) -> None:
    status, text, _ = bench("compare", "20")
    assert status == 0
    software = ["val_loss", "val_accuracy", "logged_epoch_time", "lr", "x", "y"]
    assert heading(text) == ["run", "name", "status", "duration", *software]
    assert "Hidden: z, training_score. --wide shows all, -m chooses." in text


def test_wide_tables_have_everything_and_narrow_ones_name_the_rest(
    bench: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert set(NAMES) < set(heading(bench("compare", "20", "--wide")[1]))
    monkeypatch.setenv("COLUMNS", "60")
    narrow = bench("compare", "20")[1]
    assert max(map(len, narrow.splitlines())) <= 60
    assert "Hidden: z, training_score. --wide" in " ".join(narrow.split()), "a row for each metric fits"
    monkeypatch.setenv("COLUMNS", "30")
    assert "Hidden: val_loss, val_accuracy" in " ".join(bench("compare", "20")[1].split())


def test_columns_are_chosen_by_key_title_or_quantity(bench: Command) -> None:
    words = [word for name in ("lr", "duration", "gpu_power", "CPU time") for word in ("-m", name)]
    table = list(csv.reader(io.StringIO(bench("compare", "20", "--csv", *words)[1])))
    assert table == [
        ["run", "name", "status", "simulated", "lr", "duration_seconds", "gpu_power_watts", "cpu_seconds"],
        ["20/1/1", "train", "finished", "false", "0.1", "10.0", "", ""],
        ["20/1/2", "train", "finished", "false", "0.2", "20.0", "", ""],
    ]
    status, _, error = bench("compare", "20", "-m", "val_los")
    assert (status, "no metric 'val_los' (did you mean 'val_loss'?)" in error) == (2, True)


def test_csv_has_changes_against_a_baseline(bench: Command) -> None:
    text = bench("compare", "20", "--baseline", "20/1/1", "--csv", "-m", "duration")[1]
    assert [row["change_duration_seconds"] for row in csv.DictReader(io.StringIO(text))] == ["", "1.0"]


def test_csv_has_the_scope_of_each_measured_value(bench: Command, world: World) -> None:
    start, gpu = time.time() // 600 * 600 - 7200, "GPU-1"
    alone = world.run(start, start + 60, experiment=21, gpu=gpu)
    for position in (1, 2):
        world.run(start + 100, start + 160, experiment=21, workload=2, position=position, gpu=gpu)
    times = [start + second for second in range(1, 161)]
    world.write(
        world.gauge("DCGM_FI_DEV_POWER_USAGE", times, [100.0] * 160, {"UUID": gpu}),
        world.gauge("bench_process_cpu_seconds_total", times[:60], [2.0] * 60, {"run_id": alone}),
    )
    world.connection.execute("select summarise(run_id) from runs")
    rows = list(csv.DictReader(io.StringIO(bench("compare", "21", "--csv")[1])))
    assert list(rows[0])[-4:] == [
        "scope_cpu_seconds", "scope_gpu_power_watts", "scope_gpu_energy_joules", "gpu_energy_method",
    ]  # fmt: skip
    assert [tuple(row.values())[-4:] for row in rows] == [
        ("process", "instance", "instance", "whole_gpu"), ("", "device", "", ""), ("", "device", "", ""),
    ]  # fmt: skip
    assert [row["scope_cpu_utilization"] for row in rows] == ["process", "", ""]


def test_markdown_is_a_table_and_json_is_whole(bench: Command) -> None:
    lines = bench("compare", "20", "--markdown", "-m", "duration")[1].splitlines()
    assert lines[:3] == [
        "| run | name | status | duration |", "| --- | --- | --- | ---: |", "| 20/1/1 | train | finished | 10.0 s |",
    ]  # fmt: skip
    assert "final_x" in json.loads(bench("compare", "20", "--json", "-m", "duration")[1])["runs"][0]
    assert bench("compare", "20", "--json", "--csv")[0] == 2
    assert bench("compare", "20", "--baseline", "20/1/1", "--fail-on", "duration>+3%", "--csv")[0] == 2


def test_any_quantity_can_be_chosen(bench: Command, world: World) -> None:
    start = time.time() // 600 * 600 - 7200
    for position, threads in ((1, 4), (2, 6)):
        run_id = world.run(start, start + 60, workload=2, position=position)
        line = f'# TYPE bench_process_threads gauge\nbench_process_threads{{run_id="{run_id}"}} {threads}\n'
        scrapes = [(start + second, line.encode()) for second in range(60)]
        world.write(world.scraped(scrapes, f"process{position}"))

    def chosen(*words: str) -> list[dict[str, str]]:
        status, text, _ = bench("compare", "20/2", "-m", "threads", "--csv", *words)
        assert status == 0
        return list(csv.DictReader(io.StringIO(text)))

    runs = chosen("--baseline", "20/2/1")
    assert [float(row["threads"]) for row in runs] == [4, 6]
    assert [row["scope_threads"] for row in runs] == ["process", "process"]
    assert float(runs[1]["change_threads"]) == pytest.approx(0.5)
    assert [float(row["threads"]) for row in chosen("--by", "row")] == [4, 6]
    assert [float(row["threads"]) for row in chosen("--by", "workload")] == [5]  # a mean, as of levels
    status, _, error = bench("compare", "20/2", "-m", "thread")
    assert status == 2
    assert "these runs have no metric 'thread'" in error


def test_a_watched_loss_can_be_chosen(bench: Command, world: World) -> None:
    start = time.time() // 600 * 600 - 7200
    watched, diverged, logging, _ = (
        world.run(start, start + 60, experiment=21, position=position) for position in (1, 2, 3, 4)
    )
    for run_id, last in ((watched, 2.0), (diverged, None), (logging, 3.0)):
        key = tensor_set(world.connection, run_id, "losses", ["loss"])
        for step, loss in ((0, 8.0), (10, last)):
            tensor_step(
                world.connection, run_id, key, step, start + 10 + step, mean=[loss], nonfinite=[float(loss is None)]
            )
    store_software_metrics(world.connection, logging, [SoftwareMetric("loss", 1, start + 1, 7.0)])
    found = json.loads(bench("compare", "21", "-m", "loss", "--json")[1])
    assert [one["software_metrics"].get("loss", "none") for one in found["runs"]] == [2, None, 7, "none"]
    named = {one["code"]: one["runs"] for one in found["notices"]}
    assert (named["not_finite"], named["not_logged"]) == (["21/1/2"], ["21/1/4"])
    assert heading(bench("compare", "21", "-m", "loss")[1]) == ["run", "name", "status", "loss"]
    assert bench("compare", "21/1/1", "--fail-on", "loss>1")[0] == 1
    assert bench("compare", "21/1/1", "--fail-on", "loss>3")[0] == 0
    assert "loss" not in heading(bench("compare", "21/1/1")[1]), "unless it is chosen"
    store_spans(
        world.connection, watched, [SpanRecord("a", None, "a", "phase", None, start, start + 15, 1, "main"),
                                    SpanRecord("b", None, "b", "phase", None, start + 15, start + 60, 1, "main")]
    )  # fmt: skip
    part = json.loads(bench("compare", "21/1/1", "-m", "loss", "--align", "phase:a", "--json")[1])
    assert part["runs"][0]["software_metrics"] == {"loss": 8}
    store_spans(world.connection, diverged, [SpanRecord("a", None, "a", "phase", None, start, start + 15, 1, "main")])
    assert bench("compare", "21/1/1", "--align", "phase:a", "--fail-on", "loss>9")[0] == 0
    assert bench("compare", "21/1/2", "--align", "phase:a", "--fail-on", "loss>9")[0] == 1, "it diverges later"


def test_an_unknown_column_has_the_columns_that_there_are(bench: Command) -> None:
    error = bench("compare", "20", "-m", "qqqqqqqq")[2]
    names = error.partition("(one of: ")[2].strip().removesuffix(")").split(", ")
    assert sorted(names) == sorted(["duration", *NAMES])
