"""Throughput, waits and model FLOPs utilization of runs, from steps whose amounts are known."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hypergauge.core.config.settings import Settings
from hypergauge.dashboards.terminal.comparison_sheet import sheet
from hypergauge.dashboards.terminal.comparison_table import csv_text
from hypergauge.insight.comparison.comparison import compare
from hypergauge.insight.comparison.entry import Entry
from hypergauge.insight.comparison.trust import trust
from hypergauge.insight.cost.further import further
from hypergauge.insight.part import Part
from hypergauge.insight.regression.conditions import Condition
from hypergauge.insight.regression.gate import gated
from tests.support.world import World, one, rows

Steps = Sequence[tuple[float, float]]
GPU = "GPU-1"
PEAK = 312e12  # of an A100


@pytest.fixture
def start() -> float:
    return time.time() // 60 * 60 - 3600


def steps(world: World, run: str, times: Steps, *, pid: int = 1, **amounts: float | None) -> None:
    """Write steps of a rank, each with the same amounts."""
    for at, (began, ended) in enumerate(times):
        world.connection.execute(
            """
            insert into spans (run_id, span_id, name, kind, step, started_at, ended_at, pid, data_wait, samples, tokens, flops)
            values (%s, %s, 'step', 'step', %s, to_timestamp(%s), to_timestamp(%s), %s, %s, %s, %s, %s)
            """,
            (run, f"{pid} {at} {began}", at, began, ended, pid,
             *(amounts.get(name) for name in ("data_wait", "samples", "tokens", "flops"))),
        )  # fmt: skip


def phase(world: World, run: str, name: str, began: float, ended: float) -> None:
    world.connection.execute(
        "insert into spans (run_id, span_id, name, kind, started_at, ended_at)"
        " values (%s, %s, %s, 'phase', to_timestamp(%s), to_timestamp(%s))",
        (run, f"{name} {began}", name, began, ended),
    )


def on_gpu(
    world: World, start: float, model: str = "NVIDIA A100-SXM4-40GB", profile: str | None = None, **options: Any
) -> str:
    """Start a run of a minute on a GPU, or on an instance of one, whose model an exporter names."""
    run = world.run(start, start + 60, gpu=GPU, gpu_instance=7 if profile else None, **options)
    labels = {"gpu": "0", "UUID": GPU, "modelName": model}
    times = [start + 0.5 + at for at in range(60)]
    if profile:
        labels |= {"GPU_I_PROFILE": profile, "GPU_I_ID": "7"}
    world.write(world.gauge("DCGM_FI_PROF_GR_ENGINE_ACTIVE", times, [0.5] * 60, labels, "dcgm"))
    return run


def energy(world: World, run: str, start: float, watts: float) -> None:
    labels = {"domain": "package", "method": "cpu_time", "run_id": run}
    times = [start + 0.5 + at for at in range(60)]
    world.write(world.gauge("bench_rapl_attributed_energy_joules_total", times, [watts] * 60, labels, "rapl"))


def entries(world: World, **options: Any) -> list[Entry]:
    return list(compare(world.connection, ["20"], **options).entries)


def view(world: World, run: str) -> Mapping[str, Any]:
    names = [
        "steps",
        "seconds",
        "steps_per_second",
        "samples_per_second",
        "tokens_per_second",
        "flops_per_second",
        "data_wait_share",
        "mfu",
    ]
    values = rows(world, f"select {', '.join(names)} from bench.run_throughput where run_id = %s", run)
    return dict(zip(names, values[0], strict=True)) if values else {}


@pytest.mark.flavours
def test_rates_are_those_of_the_time_that_steps_cover(world: World, start: float) -> None:
    """Twenty steps of a second, of which each waited a quarter before it, with evaluation of ten seconds between."""
    run = on_gpu(world, start)
    times = [(at + 0.25, at + 1) for at in (*range(10), *range(20, 30))]
    steps(
        world,
        run,
        [(start + a, start + b) for a, b in times],
        data_wait=0.25,
        samples=32,
        tokens=1000,
        flops=0.4 * PEAK,
    )
    [entry] = entries(world)
    expected = {
        "steps_per_second": 1.0, "samples_per_second": 32.0, "tokens_per_second": 1000.0, "flops_per_second": 0.4 * PEAK,
        "data_wait_share": 0.25, "mfu": 0.4,
    }  # fmt: skip
    assert {key: entry.values[key] for key in expected} == pytest.approx(expected)
    assert view(world, run) == pytest.approx({**expected, "steps": 20, "seconds": 20.0})
    assert one(world, "select value from bench_dashboard.run_card(%s) where what = 'throughput'", run) == (
        "32 samples/s, 1000 tokens/s, 1 steps/s, MFU 40.0 %, 25.0 % of it waiting for data"
    )


def test_without_waits_their_share_is_unknown(world: World, start: float) -> None:
    run = world.run(start, start + 60)
    steps(world, run, [(start + at, start + at + 1) for at in range(10)], samples=10)
    found = view(world, run)
    assert (found["data_wait_share"], found["samples_per_second"]) == (None, pytest.approx(10))


def test_a_wait_within_a_step_is_not_time_twice(world: World, start: float) -> None:
    """As of a watched model: a step begins where the last one ended, or where its phase began."""
    run = world.run(start, start + 60)
    steps(world, run, [(start + at, start + at + 1) for at in (*range(10), *range(20, 30))], data_wait=0.5, samples=10)
    found = view(world, run)
    assert found["seconds"] == pytest.approx(20)
    assert found["data_wait_share"] == pytest.approx(0.5)


def test_samples_add_up_over_ranks_and_time_does_not(world: World, start: float) -> None:
    run = on_gpu(world, start)
    for pid, late in ((1, 0.0), (2, 0.5)):
        times = [(start + at + late, start + at + late + 1) for at in range(10)]
        steps(world, run, times, pid=pid, samples=16, flops=0.1 * PEAK, data_wait=0)
    found = view(world, run)
    assert found["seconds"] == pytest.approx(10.5)
    assert found["samples_per_second"] == pytest.approx(320 / 10.5)
    assert found["mfu"] == pytest.approx(2 / 10.5)
    assert (found["steps"], found["steps_per_second"]) == (20, pytest.approx(1))


def test_only_steps_that_know_an_amount_count_for_its_rate(world: World, start: float) -> None:
    run = world.run(start, start + 60)
    steps(world, run, [(start, start + 2)], samples=20)
    steps(world, run, [(start + 2, start + 10)], pid=2)
    assert view(world, run)["samples_per_second"] == pytest.approx(10)


def test_a_run_without_steps_has_no_throughput(world: World, start: float) -> None:
    run = world.run(start, start + 60)
    assert view(world, run) == {}
    assert not {"steps_per_second", "mfu"} & entries(world)[0].values.keys()


def test_parts_of_runs_have_their_own_rates(world: World, start: float) -> None:
    run = world.run(start, start + 60)
    for begin, name, samples in ((0, "train", 10), (10, "evaluate", 50), (20, "train", 30)):
        phase(world, run, name, start + begin, start + begin + 10)
        steps(
            world, run, [(start + begin + at, start + begin + at + 1) for at in range(10)], pid=begin, samples=samples
        )
    rates = [
        entries(world, **options)[0].values["samples_per_second"]
        for options in (
            {}, {"part": Part(phase="train")}, {"part": Part(phase="evaluate")}, {"part": Part(20, None)},
            {"part": Part(None, 15)}, {"align": "phase:evaluate"},
        )
    ]  # fmt: skip
    assert rates == pytest.approx([30, 20, 50, 30, 70 / 3, 50])


@pytest.mark.parametrize(
    ("profile", "share"), [("1g.5gb", 1 / 7), ("3g.20gb", 3 / 7), ("1c.3g.20gb", 1 / 7), ("7g.40gb", 1)]
)
def test_the_peak_of_an_instance_is_its_part_of_the_slices(
    world: World, start: float, profile: str, share: float
) -> None:
    run = on_gpu(world, start, profile=profile)
    steps(world, run, [(start, start + 1)], flops=0.05 * PEAK)
    assert view(world, run)["mfu"] == pytest.approx(0.05 / share)


def test_a_device_of_unknown_peak_is_named_and_can_be_given(world: World, start: float, tmp_path: Path) -> None:
    run = on_gpu(world, start, "NVIDIA X1")
    on_host = world.run(start, start + 60, position=2)
    for each in (run, on_host):
        steps(world, each, [(start, start + 1)], flops=5e12)
    assert [view(world, each)["mfu"] for each in (run, on_host)] == [None, None]
    found = compare(world.connection, ["20"])
    texts = [one.text for one in trust(world.connection, found).notices if one.code == "missing_metrics"]
    assert texts == [
        "20/1/1: no mfu: the peak FLOPS of NVIDIA X1 are unknown; `peak_flops` in bench.toml gives them.",
        "20/1/2: no mfu: the peak FLOPS of its host are unknown; `peak_flops` in bench.toml gives them.",
    ]
    more = further(Settings(home=tmp_path, peak_flops=2e13), None)
    for entry in compare(world.connection, ["20"], further=more).entries:
        assert entry.values["mfu"] == pytest.approx(0.25)
        assert entry.missing == ()


def test_one_device_of_unknown_peak_makes_that_of_the_run_unknown(world: World, start: float, tmp_path: Path) -> None:
    run = on_gpu(world, start)
    world.connection.execute(
        'insert into placements select (p).* from (select jsonb_populate_record(p, \'{"gpu_uuid": "GPU-2"}\') as p'
        " from placements p where run_id = %s) x",
        (run,),
    )
    steps(world, run, [(start, start + 1)], flops=0.5 * PEAK)
    assert view(world, run)["mfu"] is None
    [entry] = entries(world, further=further(Settings(home=tmp_path, peak_flops=PEAK), None))
    assert entry.values["mfu"] == pytest.approx(0.25)


def test_simulated_gpus_have_a_utilization_by_request_only(world: World, start: float) -> None:
    run = on_gpu(world, start, simulated=True)
    steps(world, run, [(start, start + 1)], flops=0.5 * PEAK)
    [entry] = entries(world)
    if entry.simulated:
        assert "mfu" not in entry.values
        assert [(one.metric, one.reason.code) for one in entry.missing] == [("mfu", "gpus_simulated")]
    assert entries(world, simulated=True)[0].values["mfu"] == pytest.approx(0.5)


def test_samples_of_steps_count_for_energy(world: World, start: float) -> None:
    run = world.run(start, start + 60)
    energy(world, run, start, 50)
    world.connection.execute('update runs set params = \'{"batch_size": "7"}\'')
    steps(world, run, [(start + at, start + at + 1) for at in range(10)], samples=30, tokens=600)
    [entry] = entries(world)
    assert entry.values["energy_per_sample_joules"] == pytest.approx(3000 / 300)
    assert entry.values["samples_per_joule"] == pytest.approx(0.1)
    assert entry.values["tokens_per_joule"] == pytest.approx(2)
    [half] = entries(world, part=Part(None, 5))
    assert half.values["samples_per_joule"] == pytest.approx(150 / 250, rel=0.15)


def test_columns_attempts_and_conditions(world: World, start: float) -> None:
    for attempt, samples in ((1, 32.0), (2, 34.0)):
        run = on_gpu(world, start, attempt=attempt)
        steps(
            world,
            run,
            [(start + at, start + at + 1) for at in range(10)],
            samples=samples,
            flops=PEAK / 4,
            data_wait=0.0,
        )
    found = compare(world.connection, ["20"], by="row")
    assert found.entries[0].values["samples_per_second"] == pytest.approx(33)
    assert found.entries[0].deviations["samples_per_second"] == pytest.approx(2**0.5)
    titles = [column.title for column in sheet(found).columns]
    assert {"samples/s", "MFU"} <= set(titles)
    assert not {"steps/s", "model FLOPS", "samples/J", "data wait"} & set(titles), "others tell the same, or it is zero"
    [asked] = sheet(found, ["steps/s"]).lines
    assert asked[3][-1].text.startswith("1 ")
    [row] = csv.DictReader(io.StringIO(csv_text(found, sheet(found, everything=True))))
    assert float(row["flops_per_second"]) == pytest.approx(PEAK / 4)
    gate = gated(
        world.connection, ["20"], [Condition.parse("mfu<20%"), Condition.parse("samples_per_second<30")], baseline=None,
        alpha=0.05, scope=None, simulated=False, align=None,
    ).gate  # fmt: skip
    assert gate is not None
    assert [verdict.outcome for verdict in gate.verdicts] == ["passed", "passed"]


NAMES = {
    "NVIDIA B200": "B200", "NVIDIA GB200": "GB200", "NVIDIA H200": "H200", "NVIDIA H200 NVL": "H200 NVL",
    "NVIDIA GH200 480GB": "H200", "NVIDIA H100 80GB HBM3": "H100 SXM", "NVIDIA H100 PCIe": "H100 PCIe",
    "NVIDIA H100 NVL": "H100 NVL", "NVIDIA A100-SXM4-40GB": "A100", "NVIDIA A100 80GB PCIe": "A100", "NVIDIA A10": "A10",
    "NVIDIA A10G": None, "NVIDIA A30": "A30", "NVIDIA L4": "L4", "NVIDIA L40": "L40", "NVIDIA L40S": "L40S", "Tesla T4": "T4",
    "Tesla V100-SXM2-16GB": "V100 SXM2", "Tesla V100-PCIE-32GB": "V100 PCIe", "Tesla V100S-PCIE-32GB": "V100S",
    "NVIDIA GeForce RTX 4090": "RTX 4090", "NVIDIA GeForce RTX 4090 D": None, "NVIDIA GeForce RTX 4090 Laptop GPU": None,
    "NVIDIA GeForce RTX 3090": "RTX 3090", "NVIDIA GeForce RTX 3090 Ti": None, "NVIDIA GeForce RTX 5090": "RTX 5090",
    "AMD Instinct MI300X": "MI300X", "AMD INSTINCT MI250X": "MI250X", "AMD Instinct MI210": "MI210",
}  # fmt: skip


def test_names_of_drivers_find_their_model(world: World) -> None:
    found = {
        name: next(iter(rows(world, "select model from bench.gpu_peaks where %s ~* pattern limit 1", name)), None)
        for name in NAMES
    }
    assert {name: model and model[0] for name, model in found.items()} == NAMES
    # A peak of a wider format is never above that of a narrower one.
    assert (
        rows(world, "select model from bench.gpu_peaks where not (fp8 >= fp16 and fp16 >= tf32 and tf32 >= fp32)") == []
    )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 3), st.integers(0, 200), st.integers(1, 40), st.integers(0, 9)),
        min_size=1,
        max_size=12,
    )
)
def test_the_time_of_ranks_is_the_union_of_their_steps(world: World, drawn: list[tuple[int, int, int, int]]) -> None:
    """In tenths of a second: a step belongs to its rank, and never begins before the one before has ended."""
    start = 1_700_000_000.0
    world.connection.execute("delete from runs")
    run = world.run(start, start + 3600)
    covered: set[int] = set()
    ends: dict[int, int] = {}
    total = 0
    for pid, began, took, samples in sorted(drawn, key=lambda one: one[1]):
        began = max(began, ends.get(pid, 0))
        ends[pid] = began + took
        steps(world, run, [(start + began / 10, start + (began + took) / 10)], pid=pid, samples=samples)
        covered.update(range(began, began + took))
        total += samples
    found = view(world, run)
    assert found["seconds"] == pytest.approx(len(covered) / 10)
    assert found["samples_per_second"] == pytest.approx(10 * total / len(covered))
    assert found["steps"] == len(drawn)


def test_the_view_answers_with_schema_bench_alone_on_the_path(world: World, start: float) -> None:
    run = on_gpu(world, start)
    steps(world, run, [(start, start + 1)], flops=PEAK / 2)
    with world.connection.transaction():
        world.connection.execute("set local search_path = bench, public")
        assert view(world, run)["mfu"] == pytest.approx(0.5)


def test_a_run_without_a_gpu_has_the_peak_of_its_host_beside_simulated_gpus(
    world: World, start: float, tmp_path: Path
) -> None:
    run = world.run(start, start + 60, simulated=True)
    steps(world, run, [(start, start + 1)], flops=5e12)
    [entry] = entries(world)
    assert [(one.metric, one.reason.code) for one in entry.missing] == [("mfu", "no_peak_flops")]
    assert "MFU" in [column.title for column in sheet(compare(world.connection, ["20"]), ["MFU"]).columns]
    [given] = entries(world, further=further(Settings(home=tmp_path, peak_flops=1e13), None))
    assert given.values["mfu"] == pytest.approx(0.5)
