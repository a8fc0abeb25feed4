"""Jetson devices: lines of `tegrastats` from devices, and the kernel's files without the tool."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from hypergauge.exporters.energy.cpu_time import CpuTime
from hypergauge.exporters.jetson import JetsonExporter, parse_line
from hypergauge.exporters.serving.registry import ExporterOptions
from hypergauge.exporters.serving.server import ExporterServer
from hypergauge.gpu import Inventory, inventory
from tests.support.exporters.cpu_times import ScriptedCpuTimes
from tests.support.exporters.golden import check_golden, promtool_findings
from tests.support.exporters.process import END

UUID = f"JETSON-{platform.node()}"
OPTIONS = ExporterOptions(home=Path("/nowhere"), own_runs=True)  # without the runs of other tests
LINES = dict(
    line.split(": ", 1) for line in (Path(__file__).parents[2] / "data/tools/tegrastats.txt").read_text().splitlines()
)
NONE = ("no-such-tegrastats",)


def others(labels: Mapping[str, str]) -> list[str]:
    """Return the labels except the GPU's identity, which is this host's."""
    assert labels.get("UUID", UUID) == UUID
    return [value for name, value in labels.items() if name != "UUID"]


def samples(line: str) -> dict[str, float]:
    """Return existing values by name and labels."""
    return {
        " ".join([name.removeprefix("bench_"), *others(labels)]): value
        for name, labels, value in parse_line(line)
        if value is not None
    }


def lay_out(root: Path, files: dict[str, str]) -> Path:
    for name, text in {"proc/device-tree/compatible": "nvidia,p3737-0000\0nvidia,tegra234\0", **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.fixture
def tegrastats(tmp_path: Path) -> Path:
    """Tool with the output of an AGX Orin's, which logs its calls."""
    tool = tmp_path / "tegrastats"
    tool.write_text(
        f"#!/bin/sh\necho $$ $@ >> {tmp_path}/calls\nwhile :; do\n  echo '{LINES['agx_orin_r36']}'\n  sleep 0.1\ndone\n"
    )
    tool.chmod(0o755)
    return tool


def test_all_metrics_of_an_agx_xavier() -> None:
    assert samples(LINES["agx_xavier"]) == {
        "jetson_memory_used_bytes": 721 * 2**20,
        "jetson_memory_total_bytes": 31927 * 2**20,
        "jetson_memory_controller_utilization_ratio": 0.0,
        "jetson_memory_controller_clock_hertz": 665e6,
        "gpu_utilization_ratio 0": 0.0,
        "gpu_clock_hertz 0 sm": 318e6,
        "gpu_temperature_celsius 0": 37.5,
        "jetson_temperature_celsius ao": 37.5,
        "jetson_temperature_celsius tdiode": 40,
        "jetson_temperature_celsius aux": 36,
        "jetson_temperature_celsius cpu": 37.5,
        "jetson_temperature_celsius thermal": 36.9,
        "jetson_temperature_celsius tboard": 37,
        "jetson_rail_power_watts GPU": 0,
        "jetson_rail_power_watts CPU": 0.311,
        "jetson_rail_power_watts SOC": 0.932,
        "jetson_rail_power_watts CV": 0,
        "jetson_rail_power_watts VDDRQ": 0.621,
        "jetson_rail_power_watts SYS5V": 1.482,
    }


@pytest.mark.parametrize(
    ("device", "name", "value"),
    [
        ("xavier_nx", "gpu_utilization_ratio 0", 0.62),
        ("xavier_nx", "jetson_memory_controller_utilization_ratio", 0.1),
        ("xavier_nx", "jetson_rail_power_watts VDD_IN", 4.067),
        ("xavier_nx", "jetson_temperature_celsius pmic", None),  # its constant value is 100
        ("agx_orin_r35", "gpu_clock_hertz 0 sm", 114e6),
        ("agx_orin_r35", "jetson_temperature_celsius cv0", None),  # off
        ("agx_orin_r35", "jetson_rail_power_watts VDDQ_VDD2_1V8AO", 0.707),
        ("agx_orin_r35", "jetson_rail_power_watts NC", None),  # not connected
        ("agx_orin_r36", "gpu_clock_hertz 0 sm", 305e6),
        ("agx_orin_r36", "jetson_rail_power_watts VDD_CPU_CV", 4.405),
        ("agx_orin_r36", "gpu_temperature_celsius 0", 47.812),
        ("orin_nx", "jetson_rail_power_watts VDD_CPU_GPU_CV", 0.773),
        ("nano", "jetson_rail_power_watts POM_5V_GPU", 0),
        ("nano", "jetson_rail_power_watts IRAM", None),
        ("tx2", "jetson_rail_power_watts VDD_SYS_GPU", 0.152),
    ],
)
def test_formats_of_devices_and_releases(device: str, name: str, value: float | None) -> None:
    assert samples(LINES[device]).get(name) == value


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("", {}),
        ("tegrastats: command failed", {}),
        ("RAM 1000/30536MB CPU [5%@729,off]", {"jetson_memory_used_bytes", "jetson_memory_total_bytes"}),
        ("GR3D_FREQ @[0,612]", {"gpu_clock_hertz 0 sm"}),
        ("GR3D_FREQ 7%", {"gpu_utilization_ratio 0"}),
        ("VDD_CPU_CV -398mW/-398mW", {"jetson_rail_power_watts VDD_CPU_CV"}),  # reading of a sensor that is off
    ],
)
def test_missing_values_are_left_out(line: str, found: set[str]) -> None:
    assert samples(line).keys() == set(found)


def test_tegrastats_runs_as_long_as_the_exporter(tegrastats: Path, tmp_path: Path) -> None:
    exporter = JetsonExporter(OPTIONS, lay_out(tmp_path, {}), (str(tegrastats), "--interval"))
    assert exporter.check() is None
    assert not (tmp_path / "calls").exists()
    with ExporterServer(exporter):
        check_golden("jetson-agx-orin", exporter.collect())
        list(exporter.collect())
    pid, *arguments = (tmp_path / "calls").read_text().split()
    assert arguments == ["--interval", "1000"], "it is started once"
    assert not Path(f"/proc/{pid}/cmdline").exists() or not Path(f"/proc/{pid}/cmdline").read_bytes()


def files_of_an_orin() -> dict[str, str]:
    gpu, chip = "sys/class/devfreq/17000000.gpu", "sys/bus/i2c/drivers/ina3221/1-0040/hwmon/hwmon3"
    return {
        f"{gpu}/device/load": "625\n",
        f"{gpu}/cur_freq": "1300500000\n",
        "sys/class/devfreq/15340000.vic/cur_freq": "115200000\n",
        "sys/class/thermal/thermal_zone0/type": "cpu-thermal\n",
        "sys/class/thermal/thermal_zone0/temp": "53062\n",
        "sys/class/thermal/thermal_zone1/type": "gpu-thermal\n",
        "sys/class/thermal/thermal_zone1/temp": "47812\n",
        "sys/class/thermal/thermal_zone2/type": "cv0-thermal\n",
        "sys/class/thermal/thermal_zone3/type": "PMIC-Die\n",
        "sys/class/thermal/thermal_zone3/temp": "100000\n",
        f"{chip}/in1_label": "VDD_GPU_SOC\n",
        f"{chip}/in1_input": "19176\n",
        f"{chip}/curr1_input": "168\n",
        f"{chip}/in2_label": "VDD_CPU_CV\n",
        f"{chip}/in2_input": "19168\n",
        f"{chip}/curr2_input": "232\n",
        f"{chip}/in7_label": "sum of shunt voltages\n",
        f"{chip}/in7_input": "1\n",
        f"{chip}/curr7_input": "1\n",
    }


def files_of_a_xavier() -> dict[str, str]:
    chip = "sys/bus/i2c/drivers/ina3221x/1-0040/iio:device0"
    return {
        "sys/class/devfreq/17000000.gv11b/device/load": "0\n",
        "sys/class/thermal/thermal_zone0/type": "GPU-therm\n",
        "sys/class/thermal/thermal_zone0/temp": "37500\n",
        "sys/class/thermal/thermal_zone1/type": "Tboard_tegra\n",
        "sys/class/thermal/thermal_zone1/temp": "37000\n",
        f"{chip}/rail_name_1": "CPU\n",
        f"{chip}/in_power1_input": "311\n",
    }


@pytest.mark.parametrize(
    ("name", "files"), [("jetson-files-orin", files_of_an_orin()), ("jetson-files-xavier", files_of_a_xavier())]
)
def test_without_the_tool_the_kernels_files_are_read(name: str, files: dict[str, str], tmp_path: Path) -> None:
    exporter = JetsonExporter(OPTIONS, lay_out(tmp_path, files), NONE)
    assert exporter.check() is None
    check_golden(name, exporter.collect())


def test_runs_share_the_energy_of_the_whole_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chip = "sys/bus/i2c/drivers/ina3221/1-0040/hwmon/hwmon1"
    files = {
        f"{chip}/in1_label": "VDD_IN\n",
        f"{chip}/in1_input": "5000\n",
        f"{chip}/curr1_input": "1000\n",
        f"{chip}/in2_label": "VDD_CPU_GPU_CV\n",
        f"{chip}/in2_input": "5000\n",
        f"{chip}/curr2_input": "400\n",
    }
    ended, live = "0" * 31 + "1", "0" * 31 + "2"
    times = iter([CpuTime(2, 0.1, 11.9, {}), CpuTime(2, 4, 8, {ended: 2, live: 1})])
    end = replace(END, started_at=1700000000.0, ended_at=1700000002.25)
    cpu = ScriptedCpuTimes(times, {live: 1700000000.5}, {ended: end})
    exporter = JetsonExporter(OPTIONS, lay_out(tmp_path, files), NONE, cpu)
    for at in (100.0, 102.0):  # 5 W
        monkeypatch.setattr("hypergauge.exporters.jetson.time.monotonic", lambda at=at: at)
        list(exporter.collect())
    (tmp_path / chip / "curr1_input").write_text("3000\n")  # 15 W
    monkeypatch.setattr("hypergauge.exporters.jetson.time.monotonic", lambda: 104.0)
    check_golden("jetson-orin-nx", exporter.collect())


def test_the_gpu_has_the_identity_that_nvml_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [listed] = inventory("1xH100").gpus
    monkeypatch.setattr("hypergauge.exporters.jetson.inventory", lambda root: Inventory((listed,)))
    exporter = JetsonExporter(OPTIONS, lay_out(tmp_path, {"sys/class/devfreq/gpu/device/load": "500"}), NONE)
    [sample] = [sample for family in exporter.collect() for sample in family.samples]
    assert (sample.labels["UUID"], sample.value) == (listed.uuid, 0.5)


@pytest.mark.parametrize("name", ["jetson-agx-orin", "jetson-files-orin", "jetson-files-xavier", "jetson-orin-nx"])
def test_promtool_has_no_findings(name: str) -> None:
    assert promtool_findings(name) == []


def test_check_names_the_reason(tmp_path: Path) -> None:
    reason = JetsonExporter(OPTIONS, tmp_path, NONE).check()
    assert reason is not None
    assert "/proc/device-tree/compatible" in reason
    reason = JetsonExporter(OPTIONS, lay_out(tmp_path, {}), NONE).check()
    assert reason is not None
    assert "tegrastats" in reason
