"""Intel's GPUs: the kernel's files, and the use by runs from the files of their processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hypergauge.exporters.intel import Client, IntelExporter, parse_client
from hypergauge.exporters.serving.registry import ExporterOptions
from tests.support.exporters.golden import check_golden, promtool_findings
from tests.support.exporters.intel import lay_out_card

OPTIONS = ExporterOptions(home=Path("/nowhere"))
RUN = "0123456789abcdef0123456789abcdef"
ADDRESS = "0000:03:00.0"
# https://docs.kernel.org/gpu/xe/xe-drm-usage-stats.html, shortened.
XE = """\
pos:\t0
flags:\t0100002
mnt_id:\t26
ino:\t685
drm-driver:\txe
drm-client-id:\t3
drm-pdev:\t0000:03:00.0
drm-resident-system:\t0
drm-resident-gtt:\t192 KiB
drm-total-vram0:\t23992 KiB
drm-shared-vram0:\t16 MiB
drm-resident-vram0:\t23992 KiB
drm-cycles-rcs:\t28257900
drm-total-cycles-rcs:\t7655183225
drm-cycles-bcs:\t0
drm-total-cycles-bcs:\t7655183225
drm-cycles-ccs:\t0
drm-total-cycles-ccs:\t7655183225
drm-engine-capacity-ccs:\t4
"""
# The keys of https://docs.kernel.org/gpu/i915.html#i915-drm-client-usage-stats-implementation.
I915 = """\
drm-driver: i915
drm-pdev:   0000:03:00.0
drm-client-id: 7
drm-resident-local0: 2 MiB
drm-engine-render: 9288864723 ns
drm-engine-copy: 2035071108 ns
drm-engine-compute: 1000000000 ns
"""
SENSORS = {
    "device/hwmon/hwmon3/name": "xe",
    "device/hwmon/hwmon3/energy1_input": "5000000000",
    "device/hwmon/hwmon3/energy2_input": "4000000000",
    "device/hwmon/hwmon3/power1_max": "190000000",
    "device/hwmon/hwmon3/temp2_input": "52000",
    "device/hwmon/hwmon3/temp3_input": "58000",
}


def values(exporter: IntelExporter) -> dict[str, float]:
    """Return values by ``GPU NAME``, without the prefix of the names."""
    return {
        f"{sample.labels['gpu']} {sample.name.removeprefix('bench_gpu_')}": sample.value
        for family in exporter.collect()
        for sample in family.samples
        if "driver" not in sample.labels
    }


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Path]:
    """Start a process of a run; yield the folder of its descriptors."""
    command = [sys.executable, "-c", "print(flush=True); input()"]
    with subprocess.Popen(command, env={"BENCH_RUN_ID": RUN}, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        started.stdout.readline()
        folder = tmp_path / "proc" / str(started.pid) / "fdinfo"
        folder.mkdir(parents=True)
        yield folder
        started.kill()


def test_values_of_a_card_in_si_units(tmp_path: Path) -> None:
    lay_out_card(tmp_path, "card1", ADDRESS, files=SENSORS)
    exporter = IntelExporter(OPTIONS, tmp_path)
    assert exporter.check() is None
    assert values(exporter) == pytest.approx(
        {
            "0 energy_joules_total": 5000,
            "0 power_limit_watts": 190,
            "0 temperature_celsius": 52,
            "0 memory_temperature_celsius": 58,
            "0 clock_hertz": 2.4e9,
        }
    )
    check_golden("intel", exporter.collect())


def test_promtool_has_no_findings() -> None:
    assert promtool_findings("intel") == []


def test_values_of_i915_without_those_of_its_parts(tmp_path: Path) -> None:
    files = {
        "device/hwmon/hwmon2/name": "i915_gt0",
        "device/hwmon/hwmon2/energy1_input": "1",
        "device/hwmon/hwmon4/name": "i915",
        "device/hwmon/hwmon4/energy1_input": "7000000",
        "device/hwmon/hwmon4/power1_max": "0",  # no limit
        "gt/gt0/rps_act_freq_mhz": "1300",
    }
    lay_out_card(tmp_path, "card1", ADDRESS, driver="i915", files=files)
    assert values(IntelExporter(OPTIONS, tmp_path)) == {"0 energy_joules_total": 7, "0 clock_hertz": 1.3e9}


def test_the_energy_of_the_chip_counts_where_the_card_has_none(tmp_path: Path) -> None:
    files = {name: text for name, text in SENSORS.items() if "energy1" not in name}
    lay_out_card(tmp_path, "card1", ADDRESS, files=files)
    assert values(IntelExporter(OPTIONS, tmp_path))["0 energy_joules_total"] == 4000


def test_a_processors_own_gpu_is_none(tmp_path: Path) -> None:
    exporter = IntelExporter(OPTIONS, tmp_path)
    assert "no discrete GPU of Intel" in (exporter.check() or "")
    lay_out_card(tmp_path, "card0", "0000:00:02.0", driver="i915")
    assert "no discrete GPU of Intel" in (exporter.check() or "")


@pytest.mark.parametrize(
    ("text", "client"),
    [
        (XE, Client((ADDRESS, "3"), 23992 * 2**10, {"rcs": (28257900, 7655183225), "ccs": (0, 7655183225)})),
        (I915, Client((ADDRESS, "7"), 2 * 2**20, {"render": (9288864723, 0), "compute": (10**9, 0)})),
        ("pos:\t0\nflags:\t02\n", None),
        ("drm-driver: amdgpu\ndrm-client-id: 1\n", None),
        ("", None),
    ],
)
def test_a_client_is_read_from_its_file(text: str, client: Client | None) -> None:
    assert parse_client(text) == client


def test_use_by_a_run(tmp_path: Path, run: Path) -> None:
    lay_out_card(tmp_path, "card1", ADDRESS)
    lay_out_card(tmp_path, "card2", "0000:0a:00.0")
    (run / "3").write_text(XE)
    (run / "4").write_text(XE)  # the same client
    (run / "5").write_text("pos:\t0\n")
    exporter = IntelExporter(OPTIONS, tmp_path)
    first = values(exporter)
    assert first["0 run_memory_bytes"] == 23992 * 2**10
    assert first["0 run_processes"] == 1
    assert not any(name.startswith("1 run") or "utilization" in name for name in first)
    later = XE.replace("drm-cycles-ccs:\t0", "drm-cycles-ccs:\t750").replace("7655183225", "7655184225")
    for name in ("3", "4"):
        (run / name).write_text(later)
    assert values(exporter)["0 run_sm_utilization_ratio"] == pytest.approx(0.75)
    own = IntelExporter(ExporterOptions(home=tmp_path, own_runs=True), tmp_path)
    assert not any("run" in name for name in values(own)), "it is another home's"


def test_use_by_a_run_in_nanoseconds(tmp_path: Path, run: Path) -> None:
    lay_out_card(tmp_path, "card1", ADDRESS, driver="i915")
    (run / "3").write_text(I915)
    exporter = IntelExporter(OPTIONS, tmp_path)
    assert values(exporter)["0 run_memory_bytes"] == 2 * 2**20
    (run / "3").write_text(I915.replace("1000000000", str(10**15)))  # longer than any test takes
    assert values(exporter)["0 run_sm_utilization_ratio"] == 1
    assert values(exporter)["0 run_sm_utilization_ratio"] == 0
