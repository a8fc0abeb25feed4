"""Targets of the local collector."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from hypergauge.core.config.settings import Settings
from hypergauge.core.files.run_folder import write_atomically
from hypergauge.core.services import Service
from hypergauge.core.system.processes import identity
from hypergauge.stack.services.local_exporters import LocalExporters


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path)


def start(settings: Settings, name: str, port: int, simulate: str | None = None) -> None:
    """Record a service as a stack does; it lives as long as this process."""
    url = f"http://127.0.0.1:{port}/metrics"
    service = Service(
        name, os.getpid(), identity(os.getpid()) or 0.0, url, url, {"BENCH_SIMULATE": simulate} if simulate else {}
    )
    settings.stack_dir.mkdir(parents=True, exist_ok=True)
    write_atomically(settings.stack_dir / f"{name}.service", json.dumps(asdict(service)))


def scraped(exporters: LocalExporters) -> dict[str, str]:
    return {target.listener: target.url.split("/")[2] for target in exporters().values()}


def test_an_exporter_that_is_started_later_is_scraped_too(settings: Settings) -> None:
    exporters = LocalExporters(settings)
    assert scraped(exporters) == {}
    start(settings, "exporter-host", 1001)
    start(settings, "mlflow", 1002)
    assert scraped(exporters) == {"host": "127.0.0.1:1001"}
    start(settings, "exporter-nvml", 1003)
    assert scraped(exporters) == {"host": "127.0.0.1:1001", "nvml": "127.0.0.1:1003"}
    (settings.stack_dir / "exporter-host.service").unlink()
    start(settings, "exporter-nvml", 1004)
    assert scraped(exporters) == {"nvml": "127.0.0.1:1004"}


@pytest.mark.parametrize(("interval", "every"), [(0.1, 10), (1, 10), (30, 30)])
def test_a_collector_scrapes_itself_and_less_often(settings: Settings, interval: float, every: float) -> None:
    start(settings, "collector", 1001)
    [target] = LocalExporters(replace(settings, interval=interval))().values()
    assert (target.listener, target.url, target.interval) == ("collector", "http://127.0.0.1:1001/metrics", every)
    assert target.instance == str(settings.home), "those of several homes are distinguished"


def test_a_folder_that_stays_as_it_is_is_not_read_again(settings: Settings) -> None:
    exporters = LocalExporters(settings)
    start(settings, "exporter-host", 1001)
    long_ago = time.time() - 60
    os.utime(settings.stack_dir, (long_ago, long_ago))
    before = exporters()
    assert exporters() is before
    os.utime(settings.stack_dir)
    assert exporters() is not before


@pytest.mark.parametrize(
    ("simulate", "own"), [(None, {"process"}), ("1xH100", {"process", "nvml", "dcgm"})], ids=["real", "simulated"]
)
def test_simulated_gpus_are_the_homes_own(settings: Settings, simulate: str | None, own: set[str]) -> None:
    """The collector's own setting does not count: it keeps running while the exporters restart for other GPUs."""
    for port, name in enumerate(["process", "nvml", "dcgm", "host"], 1001):
        start(settings, f"exporter-{name}", port, simulate)
    targets = LocalExporters(settings)().values()
    assert {target.listener for target in targets if target.instance} == own
