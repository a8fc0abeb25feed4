"""Costs of runs: electricity by the time of day, hours of hardware, energy to a target."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hypergauge.core.errors import BadRequest
from hypergauge.dashboards.terminal.comparison_sheet import sheet
from hypergauge.insight.comparison.columns import ENERGY_KEY
from hypergauge.insight.comparison.comparison import Comparison, compare
from hypergauge.insight.comparison.trust import trust
from hypergauge.insight.cost.cost import costs
from hypergauge.insight.cost.target import Target, towards
from hypergauge.insight.cost.tariff import Tariff
from hypergauge.sql.ingest.software import SoftwareMetric, store_software_metrics
from hypergauge.sql.queries.notices import Reason
from tests.support.world import World

START = time.time() // 600 * 600 - 7200
ATTRIBUTED = "bench_gpu_attributed_energy_joules_total"


def tariff(folder: Path, text: str) -> Tariff:
    (folder / "tariff.toml").write_text(text)
    return Tariff.load(folder / "tariff.toml")


def attributed(
    world: World, run: str, start: float, watts: list[float], *, every: float = 1, gpu: str = "GPU-1"
) -> None:
    """Write the power that is a run's own, a value for each interval of so many seconds from its start."""
    times = [start + every * (1 + at) for at in range(len(watts))]
    times[-1] -= 0.001  # as the exporter does: to the last millisecond of the run
    labels = {"UUID": gpu, "run_id": run, "method": "sm_time"}
    world.write(world.gauge(ATTRIBUTED, times, watts, labels, "nvml", dt=every))


def missing(world: World, found: Comparison) -> list[tuple[list[str], list[str], dict[str, Any]]]:
    """Return the runs of each notice on missing metrics, the metrics and the reason."""
    notices = [one for one in trust(world.connection, found).notices if one.code == "missing_metrics"]
    return [(one.runs, one.values.pop("columns"), one.values) for one in notices]


def test_a_price_that_is_always_the_same(world: World, tmp_path: Path) -> None:
    run = world.run(START, START + 60, gpu="GPU-1")
    attributed(world, run, START, [300.0] * 60)
    world.run(START + 100, START + 160, position=2)
    paid = costs(tariff(tmp_path, "pue = 1.5\nprice_per_kwh = 0.4\ncarbon_g_per_kwh = 200"))
    found = compare(world.connection, ["20"], further=[paid])
    first, second = found.entries
    kilowatt_hours = 300 * 60 / 3.6e6
    assert first.values[ENERGY_KEY] == pytest.approx(18_000, rel=1e-3)
    assert first.values["cost_eur"] == pytest.approx(kilowatt_hours * 1.5 * 0.4, rel=1e-3)
    assert first.values["co2_grams"] == pytest.approx(kilowatt_hours * 1.5 * 200, rel=1e-3)
    assert not {"cost_eur", "co2_grams"} & second.values.keys(), "it has no energy of its own, which is not 0"
    assert missing(world, found) == [(["20/1/2"], ["co2_grams", "cost_eur"], {"reason": "no_own_energy"})]
    read = sheet(found)
    assert [column.title for column in read.columns[-2:]] == ["CO₂", "cost (EUR)"]
    assert [cell.text for cell in read.lines[0][3][-2:]] == ["1.5 g", "0.003"]
    assert [cell.text for cell in read.lines[1][3][-2:]] == ["", ""]
    [workload] = compare(world.connection, ["20"], by="workload", further=[paid]).entries
    assert "cost_eur" not in workload.values, "a part of the sum is not the sum"
    assert workload.as_dict("workload")["missing"][0]["run"] == "20/1/2"


NIGHT = """
time_zone = "Europe/Copenhagen"
price_per_kwh = 0.3
[[times]]
from = "22:00"
to = "00:00"
price_per_kwh = 0.2
[[times]]
from = "00:00"
to = "03:00"
price_per_kwh = 0.1
"""


@pytest.mark.parametrize(
    ("start", "parts"),
    [
        # Over midnight: three quarters of an hour before, an hour and a quarter after.
        ("2026-01-20T23:15+01:00", [(45, 0.2), (75, 0.1)]),
        # The clock goes from 2:00 to 3:00: of the three hours of the night there are two.
        ("2026-03-29T00:30+01:00", [(90, 0.1), (30, 0.3)]),
        # It goes from 3:00 back to 2:00: there are four.
        ("2025-10-26T01:30+02:00", [(120, 0.1), (0, 0.3)]),
        ("2025-10-26T02:30+02:00", [(90, 0.1), (30, 0.3)]),
    ],
)
@pytest.mark.parametrize("whole", [False, True], ids=["share", "whole GPU"])
def test_a_price_that_depends_on_the_time_of_day(
    world: World, tmp_path: Path, start: str, parts: list[tuple[int, float]], whole: bool
) -> None:
    """The power falls over two hours, so that it matters when it was used."""
    begin = datetime.fromisoformat(start).timestamp()
    watts = [700.0 - 0.5 * at for at in range(720)]
    run = world.run(begin, begin + 7200, gpu="GPU-1")
    if whole:
        times = [begin + 10 * (1 + at) - 0.001 for at in range(720)]
        world.write(world.gauge("DCGM_FI_DEV_POWER_USAGE", times, watts, {"UUID": "GPU-1"}, "dcgm", dt=10))
    else:
        attributed(world, run, begin, watts, every=10)
    world.refresh()
    price = costs(tariff(tmp_path, NIGHT))
    [entry] = compare(world.connection, ["20"], further=[price]).entries
    expected, at = 0.0, 0
    for minutes, cost in parts:
        expected += sum(watts[at : at + 6 * minutes]) * 10 / 3.6e6 * cost
        at += 6 * minutes
    assert entry.has_idle_energy is whole
    assert entry.values["cost_eur"] == pytest.approx(expected, rel=2e-3)


def test_hardware_that_runs_share_is_paid_in_equal_parts(world: World, tmp_path: Path) -> None:
    """The first has its GPU alone for 600 s and with the second for 600 s, the host for both."""
    world.run(START, START + 1200, gpu="GPU-1")
    world.run(START + 600, START + 1200, gpu="GPU-1", position=2)
    world.run(START + 2000, START + 2600, gpu="GPU-2", workload=2)
    for gpu, model in (("GPU-1", "NVIDIA H100 80GB HBM3"), ("GPU-2", "NVIDIA L4")):
        info = world.gauge("bench_gpu_info", [START + 1], [1.0], {"UUID": gpu, "gpu": "0", "name": model}, "nvml")
        world.write(info)
    found = compare(
        world.connection, ["20"], further=[costs(tariff(tmp_path, "currency = 'USD'\n[gpu_hour]\nH100 = 6"))]
    )
    assert [entry.values.get("cost_usd") for entry in found.entries] == [
        pytest.approx(1.5), pytest.approx(0.5), None,
    ]  # fmt: skip
    assert missing(world, found) == [
        (
            ["20/2/1"],
            ["cost_usd"],
            {"reason": "no_price", "file": "tariff.toml", "kind": "gpu", "name": "NVIDIA L4", "priced": ["H100"]},
        )
    ]
    hosts = compare(
        world.connection, ["20/1"], by="workload", further=[costs(tariff(tmp_path, "[host_hour]\nnode1 = 3"))]
    )
    assert hosts.entries[0].values["cost_eur"] == pytest.approx(1.0), "the host is paid once"


def test_simulated_gpus_cost_nothing_that_anybody_pays(world: World, tmp_path: Path) -> None:
    run = world.run(START, START + 60, gpu="GPU-1", simulated=True)
    attributed(world, run, START, [300.0] * 60)
    logged(world, run, START, [0.5, 0.99])
    price, target = tariff(tmp_path, "price_per_kwh = 0.4"), Target.parse("accuracy>=0.9")
    found = compare(world.connection, ["20"], further=[costs(price), towards(target)])
    assert missing(world, found) == [
        (["20/1/1"], ["cost_eur", "energy_to_target_joules"], {"reason": "gpus_simulated"})
    ]
    more = [costs(price, simulated=True), towards(target, simulated=True)]
    [entry] = compare(world.connection, ["20"], simulated=True, further=more).entries
    assert entry.values["cost_eur"] == pytest.approx(300 * 60 / 3.6e6 * 0.4, rel=1e-3)
    assert entry.values["energy_to_target_joules"] == pytest.approx(300 * 10, rel=1e-3)


def logged(world: World, run: str, start: float, accuracies: list[float]) -> None:
    """Log an accuracy each ten seconds."""
    metrics = [SoftwareMetric("accuracy", step, start + 10 * step, value) for step, value in enumerate(accuracies)]
    store_software_metrics(world.connection, run, metrics)


def test_time_and_energy_to_a_target(world: World) -> None:
    """One reaches it after 25 of 60 seconds, when its power has risen for 25; the other never does; a third logs nothing."""
    first = world.run(START, START + 60, gpu="GPU-1")
    second = world.run(START + 100, START + 160, gpu="GPU-1", position=2)
    world.run(START + 200, START + 260, gpu="GPU-1", position=3)
    for run, start in ((first, START), (second, START + 100)):
        attributed(world, run, start, [float(at) for at in range(60)])
    reached = [
        SoftwareMetric("accuracy", step, START + at, value)
        for step, (at, value) in enumerate([(10, 0.8), (25.5, 0.95), (40, 0.93), (50, 0.97)])
    ]
    store_software_metrics(world.connection, first, reached)
    logged(world, second, START + 100, [0.5, 0.91, 0.9])
    found = compare(world.connection, ["20"], further=[towards(Target.parse("accuracy >= 0.95"))])
    one, two, three = found.entries
    assert one.values["time_to_target_seconds"] == pytest.approx(25.5)
    assert one.values["energy_to_target_joules"] == pytest.approx(sum(range(25)) + 0.5 * 25)
    assert not {"time_to_target_seconds", "energy_to_target_joules"} & {*two.values, *three.values}
    assert [(entry.label, reason) for entry in found.entries for reason in {one.reason for one in entry.missing}] == [
        ("20/1/2", Reason("target_missed", {"target": "accuracy>=0.95", "best": 0.91})),
        ("20/1/3", Reason("metric_not_logged", {"key": "accuracy"})),
    ]  # fmt: skip
    assert "time to accuracy>=0.95" in [column.title for column in sheet(found).columns]
    content = found.as_dict()["runs"]
    assert content[0]["target"] == "accuracy>=0.95"
    assert content[1]["missing"][0]["metric"] == "time_to_target_seconds"
    [workload] = compare(
        world.connection, ["20"], by="workload", further=[towards(Target.parse("accuracy<=0.5"))]
    ).entries
    assert "time_to_target_seconds" not in workload.values
    with pytest.raises(BadRequest, match="did you mean 'accuracy'"):
        compare(world.connection, ["20"], further=[towards(Target.parse("acuracy>=0.95"))])


@pytest.mark.parametrize("text", ["accuracy", "accuracy=0.95", ">=0.95", "accuracy>=high", "accuracy>=1%"])
def test_what_is_no_target(text: str) -> None:
    with pytest.raises(BadRequest, match=">=, <=, >, <"):
        Target.parse(text)


def test_a_cost_in_the_part_that_runs_have_in_common(world: World, tmp_path: Path) -> None:
    begin = datetime(2026, 1, 20, 22, 59, tzinfo=UTC).timestamp()  # a minute before midnight
    for position, seconds in ((1, 300), (2, 120)):
        run = world.run(begin, begin + seconds, gpu=f"GPU-{position}", position=position)
        attributed(world, run, begin, [100.0 * position] * seconds, gpu=f"GPU-{position}")
    found = compare(world.connection, ["20"], align="time", further=[costs(tariff(tmp_path, NIGHT))])
    for position, entry in enumerate(found.entries, 1):
        expected = 100 * position * 60 / 3.6e6 * (0.2 + 0.1)
        assert entry.values["cost_eur"] == pytest.approx(expected, rel=0.02)


def test_watched_losses_stand_in_for_a_metric(world: World) -> None:
    """One run logs a loss, and the other only watches its training: a row of the mean every ten seconds."""
    for position in (1, 2):
        run = world.run(START, START + 60, position=position)
        world.connection.execute("insert into tensor_sets values (%s, '1', 'losses', '{loss}', '{10}')", (run,))
        for at in range(1, 6):
            world.connection.execute(
                "insert into tensor_steps (run_id, tensor_set, step, time, mean) values (%s, '1', %s, to_timestamp(%s), %s)",
                (run, at, START + 10 * at, [1 / at]),
            )
        if position == 1:
            store_software_metrics(world.connection, run, [SoftwareMetric("loss", 1, START + 42, 0.1)])
    found = compare(world.connection, ["20"], further=[towards(Target.parse("loss<=0.26"))]).entries
    assert [entry.values["time_to_target_seconds"] for entry in found] == pytest.approx([42, 40])


def test_energy_to_a_target_is_the_total_where_all_runs_have_the_same_parts(world: World) -> None:
    for position in (1, 2):
        run = world.run(START, START + 60, position=position)
        times = [START + 0.5 + at for at in range(60)]
        for domain, watts in (("package", 50.0), ("dram", 5.0))[: 3 - position]:
            labels = {"domain": domain, "method": "cpu_time", "run_id": run}
            world.write(world.gauge("bench_rapl_attributed_energy_joules_total", times, [watts] * 60, labels, "rapl"))
        logged(world, run, START, [0.5, 0.6, 0.99])
    target = towards(Target.parse("accuracy>=0.9"))
    [alone] = compare(world.connection, ["20/1/1"], further=[target]).entries
    assert alone.values["energy_to_target_joules"] == pytest.approx(55 * 20, rel=0.05)
    assert (
        "energy is that of CPU packages, memory" in sheet(compare(world.connection, ["20/1/1"], further=[target])).notes
    )
    both = compare(world.connection, ["20"], further=[target]).entries
    assert not any("energy_to_target_joules" in entry.values for entry in both), "neither has an energy of GPUs"
