"""The host of a target: from its labels before its lines."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.support.collector.one_line import scrape_line
from tests.support.world import HOST, World

pytestmark = pytest.mark.flavours

GPU = "GPU-8b1f6c0e-3a5d-4a4f-9c39-5f0d2a7e61b4"
POD = "dcgm-exporter-x7k2p"
MIB = 2**20
# In Kubernetes dcgm-exporter knows no other name than its pod's.
LINE = 'DCGM_FI_DEV_FB_USED{{gpu="0",UUID="{gpu}",device="nvidia0",{label}="{pod}"}} 1000\n'


def scrape(world: World, folder: Path, start: float, labels: str, label: str = "Hostname") -> None:
    """Scrape a pod from a targets file."""
    file = folder / "targets.yml"
    file.write_text(f"- targets: ['10.0.3.7:9400']\n  labels: {labels}\n")
    scrape_line(world, file, LINE.format(gpu=GPU, label=label, pod=POD), start)


def mean(world: World, run: str) -> list[float]:
    rows = world.connection.execute(
        "select mean from run_summary where run_id = %s and quantity = 'gpu_memory_used' and metric is null", (run,)
    ).fetchall()
    return [one for (one,) in rows]


def hosts(world: World) -> list[tuple[str, str]]:
    return world.connection.execute("select host, labels ->> 'Hostname' from series").fetchall()


@pytest.fixture
def start() -> float:
    return time.time() // 60 * 60 - 3600


@pytest.mark.parametrize(
    ("labels", "label"),
    [
        (f"{{job: dcgm, host: {HOST}}}", "Hostname"),
        (f"{{job: dcgm, host: {HOST}, instance: 'https://{POD}:9400/metrics'}}", "hostname"),
    ],
)
def test_the_targets_host_label_precedes_that_of_a_line(
    world: World, tmp_path: Path, start: float, labels: str, label: str
) -> None:
    run = world.run(start, start + 60, gpu=GPU)
    scrape(world, tmp_path, start, labels, label)
    assert mean(world, run) == [1000 * MIB]
    rows = world.connection.execute("select host, labels ->> %s from series", (label,)).fetchall()
    assert rows == [(HOST, POD)], "the label of the line is kept"


def test_without_a_label_the_line_names_the_host(world: World, tmp_path: Path, start: float) -> None:
    scrape(world, tmp_path, start, f"{{job: dcgm, instance: '{HOST}:9400'}}")
    assert hosts(world) == [(POD, POD)]


def test_an_added_label_moves_later_samples(world: World, tmp_path: Path, start: float) -> None:
    """Target and series labels stay the same; only the source of the host name changes."""
    run = world.run(start, start + 120, gpu=GPU)
    scrape(world, tmp_path, start, f"{{job: dcgm, instance: '{HOST}:9400'}}")
    assert mean(world, run) == []
    scrape(world, tmp_path, start + 60, f"{{job: dcgm, instance: '{HOST}:9400', host: {HOST}}}")
    assert mean(world, run) == [1000 * MIB]
    assert hosts(world) == [(HOST, POD)]
