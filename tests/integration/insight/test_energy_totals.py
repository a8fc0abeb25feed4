"""Total energy of compared runs: its parts are named, and only totals of the same parts are compared."""

from __future__ import annotations

import csv
import io
import json
import time
from typing import Any

import pytest
from rich.console import Console

from hypergauge.core.errors import BadRequest
from hypergauge.dashboards.terminal.comparison_sheet import sheet
from hypergauge.dashboards.terminal.comparison_table import comparison_table, csv_text
from hypergauge.insight.comparison.comparison import Entry, compare
from hypergauge.insight.regression.conditions import Condition
from hypergauge.insight.regression.gate import gated
from hypergauge.sql.ingest.software import SoftwareMetric, store_software_metrics
from tests.support.data.ruled import spans
from tests.support.world import World

SECONDS = 60
GPU = "GPU-1"
WATTS = {"gpu": 200.0, "cpu": 50.0, "dram": 5.0, "system": 12.0}
TOTAL, EPOCH, STEP, SAMPLE = (
    "energy_joules", "energy_per_epoch_joules", "energy_per_step_joules", "energy_per_sample_joules",
)  # fmt: skip


@pytest.fixture
def start() -> float:
    return time.time() // 60 * 60 - 3600


def measure(world: World, run: str, start: float, *parts: str, factor: float = 1.0) -> None:
    """Write the energies of a run at constant power."""
    metrics: dict[str, tuple[str, dict[str, str], str]] = {
        "gpu": ("bench_gpu_attributed_energy_joules_total", {"UUID": GPU, "method": "sm_time"}, "nvml"),
        "cpu": ("bench_rapl_attributed_energy_joules_total", {"domain": "package", "method": "cpu_time"}, "rapl"),
        "dram": ("bench_rapl_attributed_energy_joules_total", {"domain": "dram", "method": "cpu_time"}, "rapl"),
        "system": ("bench_jetson_attributed_energy_joules_total", {"rail": "VDD_IN", "method": "cpu_time"}, "jetson"),
    }
    times = [start + 0.5 + at for at in range(SECONDS)]
    for part in parts:
        metric, labels, exporter = metrics[part]
        values = [WATTS[part] * factor] * SECONDS
        world.write(world.gauge(metric, times, values, {**labels, "run_id": run}, exporter))


def run(world: World, start: float, *parts: str, position: int = 1, factor: float = 1.0, **options: Any) -> str:
    gpu = GPU if "gpu" in parts else None
    made = world.run(start, start + SECONDS, position=position, gpu=gpu, **options)
    measure(world, made, start, *parts, factor=factor)
    return made


def entries(world: World, **options: Any) -> list[Entry]:
    return list(compare(world.connection, ["20"], **options).entries)


def shown(world: World, **options: Any) -> str:
    out = Console(width=240)
    with out.capture() as captured:
        out.print(comparison_table(sheet(compare(world.connection, ["20"], **options))))
    return " ".join(captured.get().split())


def test_gpu_cpu_and_memory_add_up(world: World, start: float) -> None:
    run(world, start, "gpu", "cpu", "dram")
    [entry] = entries(world)
    assert entry.energy_parts == ("gpu", "cpu", "dram")
    assert entry.values["cpu_energy_joules"] == pytest.approx(50 * SECONDS)
    assert entry.values["dram_energy_joules"] == pytest.approx(5 * SECONDS)
    assert entry.values[TOTAL] == pytest.approx(255 * SECONDS)
    assert (entry.energy_method, entry.host_energy_method) == ("sm_time", "cpu_time")
    assert "energy is that of GPUs, CPU packages, memory" in shown(world)
    summary = world.connection.execute(
        "select quantity, total from run_summary where quantity like '%energy_attributed' and metric is null and scope = 'process'"
    ).fetchall()
    assert dict(summary) == {
        f"{part}_energy_attributed": pytest.approx(WATTS[part] * SECONDS) for part in ("gpu", "cpu", "dram")
    }


def test_the_energy_of_a_system_includes_its_parts(world: World, start: float) -> None:
    run(world, start, "gpu", "system")
    [entry] = entries(world)
    assert entry.values[TOTAL] == pytest.approx(12 * SECONDS)
    assert entry.energy_parts == ("system",)
    assert "energy is that of the whole system" in shown(world)


def test_without_energy_of_the_host_the_total_repeats_the_gpus(world: World, start: float) -> None:
    run(world, start, "gpu")
    found = compare(world.connection, ["20"])
    assert found.entries[0].values[TOTAL] == found.entries[0].values["gpu_energy_joules"]
    titles = [column.title for column in sheet(found).columns]
    assert "GPU energy" in titles
    assert "energy" not in titles
    assert [column.key for column in sheet(found, [TOTAL]).columns] == [TOTAL], "it can be chosen"


def test_a_run_without_any_energy_has_no_total(world: World, start: float) -> None:
    made = run(world, start)
    spans(world, made, "epoch", [(start, start + 20)])
    [entry] = entries(world)
    assert not {TOTAL, EPOCH} & entry.values.keys()
    assert entry.energy_parts == ()


def test_totals_of_different_parts_are_not_compared(world: World, start: float) -> None:
    parts = [("cpu", "dram"), ("cpu",), ("cpu", "dram")]
    for position, some in enumerate(parts, 1):
        made = run(world, start, *some, position=position, factor=position)
        spans(world, made, "epoch", [(start, start + 30), (start + 30, start + 60)])
    found = compare(world.connection, ["20"], baseline="20/1/1")
    _, two, three = found.entries
    assert two.changes["cpu_energy_joules"] == pytest.approx(1)
    assert not {TOTAL, EPOCH} & two.changes.keys()
    assert three.changes[TOTAL] == three.changes[EPOCH] == pytest.approx(2)
    text = shown(world, baseline="20/1/1")
    assert (
        "energy has different parts, and is not compared between them: CPU packages, memory in 20/1/1, 20/1/3; "
        "CPU packages in 20/1/2"
    ) in text
    rows = list(csv.DictReader(io.StringIO(csv_text(found, sheet(found, everything=True)))))
    assert [row["energy_parts"] for row in rows] == ["cpu+dram", "cpu", "cpu+dram"]
    assert [row["host_energy_method"] for row in rows] == ["cpu_time"] * 3
    assert json.loads(json.dumps(found.as_dict(), default=str))["runs"][1]["energy_parts"] == ["cpu"]

    gate = gated(
        world.connection, ["20/1/2"], [Condition.parse("energy_joules>+3%")], baseline="20/1/1", alpha=0.05, scope=None,
        simulated=False, align=None,
    ).gate  # fmt: skip
    assert gate is not None
    assert [one.reason.code for one in gate.verdicts if one.reason] == ["scopes_differ"]


def test_energy_per_epoch_step_and_sample(world: World, start: float) -> None:
    made = run(world, start, "cpu")
    spans(world, made, "epoch", [(start, start + 20), (start + 20, start + 40), (start + 40, None)])
    spans(world, made, "step", [(start + at, start + at + 1) for at in range(40)])
    [entry] = entries(world)
    assert entry.values[EPOCH] == pytest.approx(3000 / 2), "an unfinished epoch does not count"
    assert entry.values[STEP] == pytest.approx(3000 / 40)
    assert SAMPLE not in entry.values

    set_params(world, made, {"batch-size": "32"})
    [entry] = entries(world)
    assert entry.values[SAMPLE] == pytest.approx(3000 / (40 * 32))
    assert "2.3 J" in shown(world)

    # What the script counts itself is better than a product.
    store_software_metrics(world.connection, made, [SoftwareMetric("samples", 39, start + 50, 1000.0)])
    [entry] = entries(world)
    assert entry.values[SAMPLE] == pytest.approx(3.0)


def set_params(world: World, run_id: str, params: dict[str, str]) -> None:
    world.connection.execute("update runs set params = %s where run_id = %s", (json.dumps(params), run_id))


def test_a_batch_on_several_gpus_is_ambiguous(world: World, start: float) -> None:
    made = run(world, start, "cpu")
    spans(world, made, "step", [(start + at, start + at + 1) for at in range(40)])
    set_params(world, made, {"batch_size": "32"})
    world.connection.execute("update runs set devices = '0+1'")
    [entry] = entries(world)
    assert STEP in entry.values
    assert SAMPLE not in entry.values


@pytest.mark.parametrize("size", ["auto", "-1", "1e3", "", "0"])
def test_other_batch_sizes_are_no_number_of_samples(world: World, start: float, size: str) -> None:
    made = run(world, start, "cpu")
    spans(world, made, "step", [(start, start + 1)])
    set_params(world, made, {"batch_size": size})
    assert SAMPLE not in entries(world)[0].values


def test_a_part_of_runs_has_its_own_counts(world: World, start: float) -> None:
    for position in (1, 2):
        made = run(world, start, "cpu", position=position)
        # The second run begins its epochs later.
        begin = start + 10 * (position - 1)
        spans(world, made, "epoch", [(begin + 10 * at, begin + 10 * at + 10) for at in range(4)])
    for entry in entries(world, align="epoch"):
        assert entry.values[EPOCH] == pytest.approx(500, rel=0.05)


def test_workloads_and_rows(world: World, start: float) -> None:
    for position in (1, 2):
        made = run(world, start, "cpu", "dram", position=position, factor=position)
        spans(world, made, "epoch", [(start, start + 30)])
    [workload] = entries(world, by="workload")
    assert workload.values[TOTAL] == pytest.approx(3 * 55 * SECONDS)
    assert workload.values[EPOCH] == pytest.approx(1.5 * 55 * SECONDS)
    assert workload.energy_parts == ("cpu", "dram")
    again = run(world, start + 100, "cpu", "dram", attempt=2, factor=2)
    spans(world, again, "epoch", [(start + 100, start + 130)])
    first, _ = entries(world, by="row")
    assert first.values[TOTAL] == pytest.approx(1.5 * 55 * SECONDS)
    assert first.deviations[TOTAL] > 0


def test_a_workload_lacks_the_parts_that_a_run_lacks(world: World, start: float) -> None:
    run(world, start, "cpu", "dram")
    run(world, start, "cpu", position=2)
    [workload] = entries(world, by="workload")
    assert [(one.metric, one.run) for one in workload.missing] == [("dram_energy_joules", "20/1/2")]
    assert workload.energy_parts == ("cpu",)
    assert workload.values[TOTAL] == pytest.approx(2 * 50 * SECONDS)


def test_an_unknown_energy_is_no_column(world: World, start: float) -> None:
    run(world, start, "cpu")
    found = compare(world.connection, ["20"])
    with pytest.raises(BadRequest, match="cpu_energy_joule"):
        sheet(found, ["cpu_energy_joule"])
