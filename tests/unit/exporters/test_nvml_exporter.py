"""The exporter ``nvml`` on synthetic samples, with real processes as runs on the GPUs."""

from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from hypergauge.collector.convert.definitions import Definitions
from hypergauge.collector.discovery.targets import Target
from hypergauge.collector.metrics import CollectorMetrics
from hypergauge.collector.scrape.scraped_target import ScrapedTarget
from hypergauge.exporters.nvml.exporter import NvmlExporter
from hypergauge.exporters.serving.registry import ExporterOptions
from hypergauge.gpu.sampling.sample import GpuProcess, GpuSample
from tests.support.exporters.golden import check_golden, check_parses, promtool_findings
from tests.support.exporters.nvml import (
    A100,
    CONSUMER,
    GIB,
    H100,
    T0,
    Page,
    Values,
    end_process,
    end_run,
    moved,
    new_run,
)
from tests.support.exporters.process import StartRun


@pytest.fixture
def page(tmp_path: Path) -> Page:
    return Page(tmp_path)


def golden(name: str, exposition: bytes, *runs: str) -> None:
    for number, run_id in enumerate(runs, 1):
        exposition = exposition.replace(run_id.encode(), f"{number:032x}".encode())
    check_golden(f"nvml-{name}", exposition)
    check_parses(exposition)


def test_a_whole_h100(page: Page) -> None:
    page.exposition(T0, H100)
    golden("h100", page.exposition(T0 + 1, moved(H100, joules=71.5)))


def test_an_a100_with_mig(page: Page, process: StartRun, tmp_path: Path) -> None:
    run_id = new_run(tmp_path)
    page.exposition(T0, A100)
    member = GpuProcess(process(run_id), 12 * GIB, None, 1)
    golden("a100-mig", page.exposition(T0 + 1, moved(A100, member, joules=250.25, power=250.0)), run_id)


def test_a_consumer_gpu(page: Page) -> None:
    page.exposition(T0, moved(CONSUMER))
    golden("consumer", page.exposition(T0 + 2, moved(CONSUMER, *CONSUMER.processes, power=45.5)))


def test_a_gpu_shared_by_two_runs(page: Page, process: StartRun, tmp_path: Path) -> None:
    first, second = sorted((new_run(tmp_path), new_run(tmp_path)))
    page.exposition(T0, H100)
    processes = [
        GpuProcess(process(first), 8 * GIB, 0.5),
        GpuProcess(process(first), 2 * GIB, 0.125),
        GpuProcess(process(second), None, 0.125),
        GpuProcess(1, GIB, 0.25),
    ]
    shared = moved(H100, *processes, joules=570.0, power=570.0)
    golden("shared", page.exposition(T0 + 1, shared, A100), first, second)


@pytest.mark.parametrize("name", ["h100", "a100-mig", "consumer", "shared"])
def test_promtool_has_no_findings(name: str) -> None:
    assert promtool_findings(f"nvml-{name}") == []


def test_nothing_is_read_before_collect(page: Page, tmp_path: Path) -> None:
    assert page.given.reads == 0
    NvmlExporter(ExporterOptions(home=tmp_path / "nowhere", simulate="no such thing"))
    assert not (tmp_path / "nowhere").exists()


def test_it_can_be_closed_at_any_time(page: Page, tmp_path: Path) -> None:
    page.exporter.close()
    assert page.given.closed == 1
    page.exposition(T0, H100)
    NvmlExporter(ExporterOptions(home=tmp_path)).close()


def test_check_names_the_reason(page: Page, tmp_path: Path) -> None:
    assert page.exporter.check() is None
    page.given.reason = "Driver Not Loaded"
    assert page.exporter.check() == "Driver Not Loaded"
    refused = NvmlExporter(ExporterOptions(home=tmp_path, simulate="1xVoodoo")).check()
    assert refused is not None
    assert refused.startswith("there is no GPU model 'Voodoo' to simulate")


def test_simulated_series_are_labeled(page: Page, process: StartRun, tmp_path: Path) -> None:
    run_id = new_run(tmp_path)
    simulated = replace(A100, gpu=replace(A100.gpu, simulated=True), xids={13: 1})
    member = GpuProcess(process(run_id), GIB, None, 9)
    page.exposition(T0, simulated)
    found = page.read(T0 + 1, moved(simulated, member, joules=100))
    assert found.all("run_processes", run_id=run_id)
    found.samples += page.read(T0 + 2, lost={A100.gpu.uuid: "fell off the bus"}).samples
    end_run(tmp_path, run_id, T0 + 2.5)
    found.samples += page.read(T0 + 3).samples
    assert {labels.get("simulated") for _, labels, _, _ in found.samples} == {"true"}


def test_a_metric_unknown_for_one_process_is_left_out(page: Page, process: StartRun, tmp_path: Path) -> None:
    run_id = new_run(tmp_path)
    one, other = process(run_id), process(run_id)
    found = page.read(T0, moved(H100, GpuProcess(one, GIB, 0.75), GpuProcess(other, None, 0.5)))
    assert found("run_processes", run_id=run_id) == 2
    assert found("run_memory_bytes", run_id=run_id) is None
    assert found("run_sm_utilization_ratio", run_id=run_id) == 1, "at most all of the time"
    found = page.read(T0 + 1, moved(H100, GpuProcess(one, GIB), GpuProcess(other, GIB, 0.5)))
    assert found("run_memory_bytes", run_id=run_id) == 2 * GIB
    assert found("run_sm_utilization_ratio", run_id=run_id) is None


def test_a_lost_gpu_affects_no_other(page: Page, process: StartRun, tmp_path: Path) -> None:
    run_id = new_run(tmp_path)
    pid = process(run_id)
    on_both = moved(H100, GpuProcess(pid, GIB, 1.0), joules=500), moved(A100, GpuProcess(pid, GIB, None, 1), joules=100)
    page.exposition(T0, H100, A100)
    before = page.read(T0 + 1, *on_both)
    exposition = page.exposition(T0 + 2, on_both[1], lost={H100.gpu.uuid: "GPU is lost"})
    golden("lost", exposition, run_id)
    lost = Values(exposition)
    assert lost("lost", UUID=H100.gpu.uuid) == 1
    assert lost("lost", UUID=A100.gpu.uuid) is None
    assert {
        labels["UUID"] for name, labels, _, _ in lost.samples if name not in ("lost", "run_start_time_seconds")
    } == {A100.gpu.uuid}
    after = page.read(T0 + 10, moved(on_both[0], GpuProcess(pid, GIB, 1.0), joules=900), on_both[1])
    assert after("lost") is None
    name, labels = "attributed_energy_joules_total", {"UUID": H100.gpu.uuid, "run_id": run_id}
    assert before(name, **labels) == pytest.approx(500 - 70)
    assert after(name, **labels) == pytest.approx(1400 - 10 * 70), "its energy meanwhile counts"


def test_a_new_xid_counter_starts_at_zero(page: Page) -> None:
    counts = [
        page.read(T0 + second, replace(H100, xids=xids))("xid_errors_total", xid="79")
        for second, xids in enumerate([{}, {79: 3}, {79: 3}, {79: 4}])
    ]
    assert counts == [None, 0, 3, 4]


def test_a_run_without_gpu_processes_has_its_start(page: Page, process: StartRun, tmp_path: Path) -> None:
    run_id = new_run(tmp_path)
    process(run_id)
    found = page.read(T0, H100)
    assert found("run_start_time_seconds", run_id=run_id) == T0 - 5
    assert len([labels for _, labels, _, _ in found.samples if "run_id" in labels]) == 1


def test_a_run_without_processes_keeps_its_energy(page: Page, process: StartRun, tmp_path: Path) -> None:
    run_id = new_run(tmp_path)
    member = GpuProcess(process(run_id), GIB, 1.0)
    page.exposition(T0, H100)
    page.exposition(T0 + 1, moved(H100, member, joules=570))
    name = "attributed_energy_joules_total"
    assert page.read(T0 + 2, moved(H100, joules=640))(name, run_id=run_id) == pytest.approx(500)
    found = page.read(T0 + 1000, moved(H100, joules=70500))
    assert found(name, run_id=run_id) == pytest.approx(500)
    assert found("run_processes", run_id=run_id) is None


def test_the_last_interval_belongs_to_the_run(page: Page, process: StartRun, tmp_path: Path) -> None:
    run_id = new_run(tmp_path)
    pid = process(run_id)
    member = GpuProcess(pid, GIB, 1.0)
    page.exposition(T0, H100)
    page.exposition(T0 + 1, moved(H100, member, joules=570))
    end_process(pid)
    between = page.read(T0 + 2, moved(H100, joules=1140))
    assert between.timestamps(run_id=run_id) == set(), "after its last process, before the end is known: no change"
    end_run(tmp_path, run_id, T0 + 1.75)
    for later in (3, 4, 61):
        exposition = page.exposition(T0 + later, moved(H100, joules=1140 + 70 * (later - 2)))
        if later == 3:
            golden("ended", exposition, run_id)
        final = Values(exposition)
        assert final("attributed_energy_joules_total", run_id=run_id, method="sm_time") == pytest.approx(1000)
        assert final("run_start_time_seconds", run_id=run_id) == T0 - 5
        assert final("run_end_time_seconds", run_id=run_id) == T0 + 1.75
        assert final.timestamps(run_id=run_id) == {None}
        assert {name for name, labels, _, _ in final.samples if labels.get("run_id") == run_id} == {
            "attributed_energy_joules_total", "run_end_time_seconds", "run_start_time_seconds",
        }  # fmt: skip
    ended = page.read(T0 + 62, moved(H100, joules=6000))
    assert ended.timestamps(run_id=run_id) == set()
    assert ended("other_energy_joules_total") == 0


def test_the_collector_dates_all_energy_into_the_run(page: Page, process: StartRun, tmp_path: Path) -> None:
    """It uses the GPU seconds after its start, and ends between two scrapes."""
    target = Target("http://n1:1/metrics", "n1", "nvml", "n1:1", {}, 1.0)
    followed = ScrapedTarget(target, 1, Definitions(), CollectorMetrics(), T0 - 10)
    samples: list[tuple[float, float, float]] = []

    def scrape(second: float, *gpus: GpuSample) -> None:
        # The scan precedes the read of the GPUs.
        scrape = followed.parse(page.exposition(T0 + second + 0.01, *gpus))
        record = followed.take(scrape, T0 + second, T0 + second, T0 + second)
        assert record is not None
        for time, ref, value, dt in zip(record.times, record.refs, record.values, record.dts, strict=True):
            series = record.series[int(ref)]
            if series.metric == "bench_gpu_attributed_energy_joules_total":
                assert series.labels["run_id"] == run_id
                samples.append((float(time), float(value), float(dt)))

    scrape(-7, H100)
    run_id = new_run(tmp_path)
    pid = process(run_id)
    scrape(-5, H100)
    scrape(0, H100)
    assert samples == []
    scrape(1, moved(H100, GpuProcess(pid, GIB, 1.0), joules=570))
    scrape(2, moved(H100, GpuProcess(pid, GIB, 0.5), joules=1340))
    end_process(pid)
    end_run(tmp_path, run_id, T0 + 2.5)
    scrape(3, moved(H100, joules=1740))
    scrape(4, moved(H100, joules=1810))
    assert [time - T0 for time, _, _ in samples] == pytest.approx([1, 2, 2.499])
    assert [dt for _, _, dt in samples] == pytest.approx([6, 1, 0.499])
    assert sum(value * dt for _, value, dt in samples) == pytest.approx(500 + 700 + 330, rel=1e-6)


def test_a_run_that_ended_during_a_read_stays_live_until_the_next(
    page: Page, process: StartRun, tmp_path: Path
) -> None:
    run_id = new_run(tmp_path)
    member = GpuProcess(process(run_id), GIB, 1.0)
    page.exposition(T0, H100)
    end_run(tmp_path, run_id, T0 + 1.5)
    live = page.read(T0 + 1, moved(H100, member, joules=570))
    assert live("attributed_energy_joules_total", run_id=run_id) == pytest.approx(500)
    assert live("run_start_time_seconds", run_id=run_id) == T0 - 5
    assert live.timestamps(run_id=run_id) == {None}
    final = page.read(T0 + 2, moved(H100, member, joules=1140))
    assert final("attributed_energy_joules_total", run_id=run_id) == pytest.approx(1000)
    assert final("run_end_time_seconds", run_id=run_id) == T0 + 1.5
    stays = page.read(T0 + 3, moved(H100, member, joules=1710))
    assert stays("attributed_energy_joules_total", run_id=run_id) == pytest.approx(1000)
    assert stays("other_energy_joules_total") == pytest.approx(500), "it stays on the GPU after its run's end"


def test_energy_of_another_homes_runs_is_other(process: StartRun, tmp_path: Path) -> None:
    page = Page(tmp_path, own_runs=True)
    own, other_home = new_run(tmp_path), uuid.uuid4().hex
    processes = GpuProcess(process(own), GIB, 0.25), GpuProcess(process(other_home), GIB, 0.75)
    page.exposition(T0, H100)
    found = page.read(T0 + 1, moved(H100, *processes, joules=470))
    assert found("attributed_energy_joules_total", run_id=own) == pytest.approx(100)
    assert found("other_energy_joules_total") == pytest.approx(300)
    assert found.timestamps(run_id=other_home) == set()
    everybody = Page(tmp_path)
    everybody.exposition(T0, H100)
    found = everybody.read(T0 + 1, moved(H100, *processes, joules=470))
    assert found("attributed_energy_joules_total", run_id=other_home) == pytest.approx(300)
    assert found("run_start_time_seconds", run_id=other_home) is None, "its home has it"


def test_clients_of_one_mps_server_share_its_utilization(page: Page, process: StartRun, tmp_path: Path) -> None:
    first, second = new_run(tmp_path), new_run(tmp_path)
    clients = [GpuProcess(process(run_id), GIB, None, mps=True, mps_utilization=0.9) for run_id in (first, second)]
    page.exposition(T0, H100)
    found = page.read(T0 + 1, moved(H100, *clients, joules=570))
    for run_id in (first, second):
        assert found("run_memory_bytes", run_id=run_id) == GIB
        assert found("run_sm_utilization_ratio", run_id=run_id) is None, "not 0: the driver does not tell them apart"
        assert found("attributed_energy_joules_total", run_id=run_id, method="mps_clients") == pytest.approx(250)
    assert found("other_energy_joules_total") == 0
