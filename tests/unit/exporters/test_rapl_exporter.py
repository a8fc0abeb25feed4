"""Energy counters of two sockets in the kernel's layout: names, labels, and joules past a wrap."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from hypergauge.exporters.energy.cpu_time import CpuTime
from hypergauge.exporters.rapl import RaplExporter
from hypergauge.exporters.serving.registry import ExporterOptions
from tests.support.exporters.cpu_times import ScriptedCpuTimes
from tests.support.exporters.golden import check_golden, promtool_findings
from tests.support.exporters.powercap import POWERCAP, WRAPS_AT, zone
from tests.support.exporters.process import END

OPTIONS = ExporterOptions(home=Path("/nowhere"), own_runs=True)  # without the runs of other tests


def values(exporter: RaplExporter) -> dict[tuple[str, str, str], float]:
    return {
        (sample.name, sample.labels["index"], sample.labels["path"].removeprefix(f"{POWERCAP}/")): sample.value
        for family in exporter.collect()
        for sample in family.samples
        if sample.name.startswith("node_")
    }


@pytest.fixture
def server(tmp_path: Path) -> Path:
    """Create two Xeons with memory counters, and the second interface to the same counters."""
    zone(tmp_path, "intel-rapl:0", "package-0", 262143000000)
    zone(tmp_path, "intel-rapl:0:0", "dram", 7_250_000)
    zone(tmp_path, "intel-rapl:1", "package-1", 5_000_000)
    zone(tmp_path, "intel-rapl:1:0", "dram", 1_000_000)
    zone(tmp_path, "intel-rapl-mmio:0", "package-0", 262143000000)
    return tmp_path


def test_packages_and_their_memory(server: Path) -> None:
    exporter = RaplExporter(OPTIONS, server)
    assert exporter.check() is None
    assert values(exporter) == {
        ("node_rapl_package_joules_total", "0", "intel-rapl:0"): 262143.0,
        ("node_rapl_package_joules_total", "1", "intel-rapl:1"): 5.0,
        ("node_rapl_dram_joules_total", "0", "intel-rapl:0:0"): 7.25,
        ("node_rapl_dram_joules_total", "1", "intel-rapl:1:0"): 1.0,
    }
    check_golden("rapl-server", exporter.collect())


PACKAGE = ("node_rapl_package_joules_total", "0", "intel-rapl:0")
FULL = WRAPS_AT / 1e6


@pytest.mark.parametrize(
    ("joules", "increases"),
    [
        ([262143.0, 1.0, 2.0], [FULL - 262143 + 1, 1]),  # a wrap
        ([262100.0, 100.0, 262000.0, 50.0], [FULL - 262100 + 100, 261900, FULL - 262000 + 50]),
        ([50_000.0, 0.5, 100.5], [0.5, 100]),  # a restart: a wrap within a second is 212 kJ
        ([262143.0, 1.0, 0.25], [FULL - 262143 + 1, 0.25]),  # a restart after a wrap
        ([250_000.0, 100_000.0, 100_050.0], [0, 50]),  # neither
    ],
)
def test_a_counter_that_falls_has_wrapped_or_restarted(
    server: Path, joules: list[float], increases: list[float]
) -> None:
    exporter = RaplExporter(OPTIONS, server)
    counter = server / POWERCAP[1:] / "intel-rapl:0/energy_uj"
    seen = []
    for value in joules:
        counter.write_text(f"{value * 1e6:.0f}\n")
        seen.append(values(exporter)[PACKAGE])
    assert seen[0] == joules[0]
    assert [later - earlier for earlier, later in pairwise(seen)] == pytest.approx(increases)


def test_a_counter_may_wrap_between_rare_scrapes(server: Path) -> None:
    now = 1000.0
    exporter = RaplExporter(OPTIONS, server, monotonic=lambda: now)
    counter = server / POWERCAP[1:] / "intel-rapl:0/energy_uj"
    counter.write_text("200000000000\n")
    before = values(exporter)[PACKAGE]
    now += 600
    counter.write_text("10000000000\n")  # 120 W, or a restart
    assert values(exporter)[PACKAGE] - before == pytest.approx(FULL - 200_000 + 10_000)


def test_a_laptops_zones(tmp_path: Path) -> None:
    zone(tmp_path, "intel-rapl:0", "package-0", 4_000_000)
    zone(tmp_path, "intel-rapl:0:0", "core", 3_000_000)
    zone(tmp_path, "intel-rapl:0:1", "uncore", 500_000)
    zone(tmp_path, "intel-rapl:1", "psys", 9_000_000)
    exporter = RaplExporter(OPTIONS, tmp_path)
    assert values(exporter) == {
        ("node_rapl_package_joules_total", "0", "intel-rapl:0"): 4.0,
        ("node_rapl_core_joules_total", "0", "intel-rapl:0:0"): 3.0,
        ("node_rapl_uncore_joules_total", "0", "intel-rapl:0:1"): 0.5,
        ("node_rapl_psys_joules_total", "0", "intel-rapl:1"): 9.0,
    }
    check_golden("rapl-laptop", exporter.collect())


def test_every_die_of_a_package_counts(tmp_path: Path) -> None:
    zone(tmp_path, "intel-rapl:0", "package-0-die-0", 1_000_000)
    zone(tmp_path, "intel-rapl:1", "package-0-die-1", 2_000_000)
    zone(tmp_path, "intel-rapl:1:0", "dram", 3_000_000)
    assert values(RaplExporter(OPTIONS, tmp_path)) == {
        ("node_rapl_package_joules_total", "0-die-0", "intel-rapl:0"): 1.0,
        ("node_rapl_package_joules_total", "0-die-1", "intel-rapl:1"): 2.0,
        ("node_rapl_dram_joules_total", "0-die-1", "intel-rapl:1:0"): 3.0,
    }


def test_a_missing_counter_affects_no_other(server: Path) -> None:
    (server / POWERCAP[1:] / "intel-rapl:0/energy_uj").unlink()
    exporter = RaplExporter(OPTIONS, server)
    assert exporter.check() is None
    assert ("node_rapl_package_joules_total", "0", "intel-rapl:0") not in values(exporter)
    assert ("node_rapl_package_joules_total", "1", "intel-rapl:1") in values(exporter)


def test_check_names_a_host_without_counters(tmp_path: Path) -> None:
    reason = RaplExporter(OPTIONS, tmp_path).check()
    assert reason is not None
    assert "/sys/class/powercap" in reason


def test_check_names_the_remedy_for_unreadable_counters(server: Path) -> None:
    for counter in server.glob("sys/class/powercap/*/energy_uj"):
        counter.chmod(0)
    exporter = RaplExporter(OPTIONS, server)
    before = os.geteuid()
    os.seteuid(before or 65534)  # root may read everything
    try:
        reason = exporter.check()
        with pytest.raises(OSError, match="no energy counter"):
            list(exporter.collect())
    finally:
        os.seteuid(before)
    assert reason is not None
    assert "only root may read" in reason
    assert "`sudo chmod a+r /sys/class/powercap/*/energy_uj`" in reason


def parts(exporter: RaplExporter, domain: str) -> dict[str, float]:
    """Return the totals of a split by the metric's middle word."""
    return {
        sample.name.split("_")[2]: sample.value
        for family in exporter.collect()
        for sample in family.samples
        if sample.labels.get("domain") == domain
    }


def test_runs_have_their_share_by_cpu_time(server: Path) -> None:
    ended, live = "0" * 31 + "1", "0" * 31 + "2"
    times = iter([CpuTime(1, 0.1, 3.9, {}), CpuTime(1, 3, 1, {ended: 2, live: 0.5}), CpuTime(1, 3, 1, {live: 3})])
    end = replace(END, started_at=1700000000.0, ended_at=1700000002.25)
    cpu = ScriptedCpuTimes(times, {live: 1700000000.5}, {ended: end})
    exporter = RaplExporter(OPTIONS, server, cpu)
    package = [server / POWERCAP[1:] / f"intel-rapl:{socket}/energy_uj" for socket in (0, 1)]
    memory = [server / POWERCAP[1:] / f"intel-rapl:{socket}:0/energy_uj" for socket in (0, 1)]
    assert parts(exporter, "package") == {"idle": 0, "other": 0}
    package[1].write_text("65000000\n")  # 60 W
    memory[0].write_text("11250000\n")  # 4 W
    assert parts(exporter, "dram") == {"idle": 4, "other": 0}
    package[0].write_text("99671150\n")  # 100 J, past a wrap
    package[1].write_text("85000000\n")  # 20 J
    memory[1].write_text("11000000\n")  # 10 J
    check_golden("rapl-runs", exporter.collect())
    package[0].unlink()
    assert parts(exporter, "package") == {"idle": 120, "other": 10, "attributed": 10}, (
        "half of the host is not the host"
    )


@pytest.mark.parametrize("name", ["rapl-server", "rapl-laptop", "rapl-runs"])
def test_promtool_has_no_findings(name: str) -> None:
    assert promtool_findings(name) == []
