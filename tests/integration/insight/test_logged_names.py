"""Software metrics that a script logged under the names of measured values."""

from __future__ import annotations

import csv
import io
import json
import math
import time
from collections.abc import Sequence
from typing import Any

import pytest

from hypergauge.core.errors import BadRequest
from hypergauge.dashboards.report.results import results
from hypergauge.dashboards.terminal.comparison_sheet import sheet
from hypergauge.insight.charts.bars import bars
from hypergauge.insight.charts.chart import chart
from hypergauge.insight.comparison.chosen import ChosenLosses, ChosenQuantities
from hypergauge.insight.comparison.comparison import Comparison, compare
from hypergauge.insight.cost.target import Target, towards
from hypergauge.insight.regression.conditions import Condition
from hypergauge.insight.regression.gate import gated
from hypergauge.insight.report import report
from hypergauge.sql.ingest.software import SoftwareMetric, store_software_metrics
from hypergauge.sql.queries.charts.charts import software_keys
from hypergauge.sql.queries.traces import counters_of
from hypergauge.sql.runs.selection import select_runs
from hypergauge.sql.schema.flavour import Flavour
from tests.conftest import Command
from tests.support.world import World, rows

pytestmark = pytest.mark.parametrize("flavour", [Flavour.POSTGRESQL], indirect=True, ids=["postgresql"])

# Names of columns, quantities, titles, conditions and headings, and a cost.
TAKEN = (
    "duration_seconds", "cpu_seconds", "peak_memory_bytes", "gpu_utilization", "cpu_usage", "mfu", "energy_joules", "cost_eur",
    "duration", "energy", "GPU", "throughput", "status", "name",
)  # fmt: skip
GPU = "GPU-1"


def log(world: World, run: str, at: float, value: float, names: Sequence[str] = TAKEN) -> None:
    store_software_metrics(world.connection, run, [SoftwareMetric(name, 1, at, value) for name in names])


@pytest.fixture
def runs(world: World) -> list[str]:
    """Two attempts of a row and another row, of 10, 20 and 40 s, on a GPU at 50 %, that log 1000, 2000 and 4000 as everything."""
    start, made = time.time() // 600 * 600 - 3600, []
    for position, attempt, seconds in ((1, 1, 10), (1, 2, 20), (2, 1, 40)):
        run = world.run(start, start + seconds, gpu=GPU, position=position, attempt=attempt)
        times = [start + at + 1 for at in range(seconds)]
        world.write(
            world.gauge("DCGM_FI_DEV_GPU_UTIL", times, [50.0] * seconds, {"UUID": GPU}, "dcgm"),
            world.gauge("site_metric", times, [3.0] * seconds, {"UUID": GPU}, "dcgm"),
        )
        log(world, run, start + 5, 100.0 * seconds, (*TAKEN, "site_metric", "loss"))
        made.append(run)
        start += 100
    return made


def compared(world: World, *selectors: str, **options: Any) -> Comparison:
    return compare(world.connection, selectors or ["20"], **options)


@pytest.mark.usefixtures("runs")
def test_the_measured_value_keeps_its_name_and_the_logged_one_has_its_own(world: World) -> None:
    last = compared(world).entries[0]
    assert last.values["duration_seconds"] == 20
    assert last.values["gpu_utilization"] == pytest.approx(0.5)
    assert last.software == {f"logged_{name}": 2000 for name in (*TAKEN, "site_metric")} | {"loss": 2000}
    found = sheet(compared(world), everything=True)
    titles = [column.title for column in found.columns]
    assert len(titles) == len({*titles, "run", "name", "status"}) - 3
    cells = dict(zip(titles, found.lines[0][3], strict=True))
    assert (cells["duration"].text, cells["GPU"].text) == ("20.0 s", "50%")
    assert cells["logged_GPU"].text == "2000"


@pytest.mark.usefixtures("runs")
def test_changes_and_deviations_are_of_one_of_them(world: World) -> None:
    changes = compared(world, baseline="20/1/2").entries[1].changes
    assert changes["duration_seconds"] == pytest.approx(-0.5)
    assert changes["gpu_utilization"] == pytest.approx(0, abs=1e-6)
    assert changes["logged_gpu_utilization"] == pytest.approx(-0.5)
    row = compared(world, by="row").entries[0]
    assert row.values["duration_seconds"] == 15
    assert row.values["gpu_utilization"] == pytest.approx(0.5)
    assert row.software["logged_duration_seconds"] == 1500
    assert row.deviations["duration_seconds"] == pytest.approx(math.sqrt(50))
    assert row.deviations["logged_duration_seconds"] == pytest.approx(math.sqrt(500_000))
    assert row.spread["gpu_utilization"] == pytest.approx((0.5, 0.5))
    assert row.spread["logged_gpu_utilization"] == (1000, 2000)


def test_a_logged_value_that_is_not_finite_leaves_the_measured_one(world: World, runs: list[str]) -> None:
    at = rows(world, "select max(time) from software_metrics")[0][0].timestamp()
    store_software_metrics(world.connection, runs[1], [SoftwareMetric(name, 2, at, math.nan) for name in TAKEN])
    workload = compared(world, by="workload").entries[0]
    assert workload.values["duration_seconds"] == 30
    assert workload.values["gpu_utilization"] == pytest.approx(0.5)
    assert workload.software["logged_duration_seconds"] is None
    assert {one.metric for one in workload.missing} >= {"logged_duration_seconds", "logged_gpu_utilization"}
    assert not {one.metric for one in workload.missing} & {"duration_seconds", "gpu_utilization"}
    notices = rows(
        world, "select \"values\" -> 'metrics' from chart_notice(%s, %s) where code = 'not_finite'", runs, []
    )
    assert {name for (some,) in notices for name in some} == {f"logged_{name}" for name in TAKEN}


@pytest.mark.usefixtures("runs")
def test_all_commands_know_both_by_the_same_names(
    world: World, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in world.database.settings.environment().items():
        monkeypatch.setenv(name, value)
    status, text, _ = command("compare", "20", "--csv", "--wide")
    head, *lines = csv.reader(io.StringIO(text))
    assert (status, len(set(head))) == (0, len(head))
    line = dict(zip(head, lines[0], strict=True))
    assert (float(line["duration_seconds"]), float(line["logged_duration_seconds"])) == (20, 2000)
    for name, measured in (("gpu_utilization", 0.5), ("site_metric", 3), ("duration_seconds", 20)):
        found = json.loads(command("compare", "20", "-m", name, "-m", f"logged_{name}", "--json")[1])["runs"][0]
        assert (found[name], found["software_metrics"][f"logged_{name}"]) == (pytest.approx(measured), 2000)
        assert (command("compare", "20", "--fail-on", f"{name}>{measured * 10}")[0]) == 0
        assert (command("compare", "20", "--fail-on", f"logged_{name}>{measured * 10}")[0]) == 1
    for name, measured in (("gpu_utilization", 0.5), ("site_metric", 3)):
        status, text, _ = command(
            "plot", "20", "-m", name, "-m", f"logged_{name}", "--kind", "bars", "-o", "p.svg", "--json"
        )
        drawn = {one["metric"]: one["value"] for one in json.loads(text)["bars"] if one["label"].startswith("20/1/1")}
        assert (status, drawn) == (0, {name: pytest.approx(measured), f"logged_{name}": 2000})


def test_charts_reports_targets_and_traces_have_the_names(world: World, runs: list[str]) -> None:
    selected = select_runs(world.connection, ["20"])
    names = {f"logged_{name}" for name in (*TAKEN, "site_metric")} | {"loss"}
    assert software_keys(world.connection, runs).keys() == names
    drawn = chart(world.connection, selected, ["gpu_utilization", "logged_gpu_utilization"])
    assert {(one.metric, one.logged, one.last) for one in drawn.series} == {
        ("gpu_utilization", False, None), ("logged_gpu_utilization", True, 2000.0), ("logged_gpu_utilization", True, 4000.0),
    }  # fmt: skip
    assert {one.value for one in bars(world.connection, selected, ["logged_cpu_usage"]).bars} == {2000, 4000}
    found = report(world.connection, ["20"])
    assert {one.title: one.text for one in results(found)}["Fastest"].startswith("20/1/1 train, 20.0 s (slowest:")
    reached = towards(Target.parse("logged_mfu>=1500"))
    assert "time_to_target_seconds" in compared(world, further=[reached]).entries[0].values
    with pytest.raises(BadRequest, match="none of these runs has logged 'mfu'"):
        compared(world, further=[towards(Target.parse("mfu>=1500"))])
    assert {one.quantity for one in counters_of(world.connection, runs[0], None)} >= names


@pytest.mark.usefixtures("runs")
def test_only_taken_names_change(world: World) -> None:
    at = rows(world, "select max(time) from software_metrics")[0][0].timestamp()
    run = world.run(at + 50, at + 60, experiment=21)
    log(world, run, at + 55, 1.0, ("mfu", "logged_mfu", "logged_loss", "site_metric", "cost_train", "cost_eur"))
    names = {"logged_mfu", "logged_logged_mfu", "logged_loss", "site_metric", "cost_train", "logged_cost_eur"}
    assert compared(world, "21").entries[0].software.keys() == names
    keys = rows(world, 'select key from named_keys(%s, %s) order by key collate "C"', list(names), [run])
    assert [key for (key,) in keys] == ["cost_eur", "cost_train", "logged_loss", "logged_mfu", "mfu", "site_metric"]


@pytest.mark.usefixtures("runs")
def test_a_name_without_a_measured_value_is_refused_with_the_logged_one(world: World) -> None:
    with pytest.raises(BadRequest, match=r"nothing measured 'mfu' .* is 'logged_mfu'"):
        sheet(compared(world), ["mfu"])
    assert [column.title for column in sheet(compared(world), ["logged_mfu", "GPU"]).columns] == ["logged_mfu", "GPU"]


def test_a_chosen_quantity_is_no_software_metric(world: World, runs: list[str]) -> None:
    chosen = [ChosenQuantities(["site_metric"]), ChosenLosses(["loss"])]
    entry = compared(world, further=chosen).entries[0]
    assert entry.values["site_metric"] == pytest.approx(3)
    assert entry.software["logged_site_metric"] == 2000
    verdict = gated(world.connection, runs, [Condition.parse("site_metric>5")]).gate
    assert verdict is not None
    assert verdict.verdicts[0].outcome == "passed"
