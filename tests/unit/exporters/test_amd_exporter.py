"""AMD's GPUs with the names of NVIDIA's: units, unsupported metrics, lost GPUs, and usage of runs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hypergauge.exporters.amd import AmdExporter
from hypergauge.exporters.serving.registry import ExporterOptions
from tests.support.exporters.golden import check_golden, promtool_findings
from tests.support.fakes.amdsmi import AmdSmi, Gpu, process, radeon

OPTIONS = ExporterOptions(home=Path("/nowhere"))
RUN = "0123456789abcdef0123456789abcdef"
PER_RUN = ("bench_gpu_run_memory_bytes", "bench_gpu_run_processes")


def values(exporter: AmdExporter) -> dict[str, float]:
    """Return values by ``GPU NAME more labels``, without the prefix of the names."""
    found = {}
    for family in exporter.collect():
        for sample in family.samples:
            gpu, more = (
                sample.labels["gpu"],
                [sample.labels[key] for key in sample.labels if key not in ("gpu", "UUID")],
            )
            found[" ".join([gpu, sample.name.removeprefix("bench_gpu_"), *more])] = sample.value
    return found


@pytest.fixture
def run() -> Iterator[subprocess.Popen[bytes]]:
    """Start a process of a run."""
    command = [sys.executable, "-c", "print(flush=True); input()"]
    with subprocess.Popen(command, env={"BENCH_RUN_ID": RUN}, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as going:
        assert going.stdout is not None
        going.stdout.readline()
        yield going
        going.kill()


def test_an_mi300x_and_a_radeon_in_si_units() -> None:
    exporter = AmdExporter(OPTIONS, AmdSmi(Gpu(), radeon()))
    assert exporter.check() is None
    assert values(exporter) == pytest.approx(
        {
            "0 utilization_ratio": 0.47,
            "0 memory_utilization_ratio": 0.0,
            "0 memory_used_bytes": 175169 * 2**20,
            "0 memory_free_bytes": (196592 - 175169) * 2**20,
            "0 memory_total_bytes": 196592 * 2**20,
            "0 power_watts": 287,
            "0 power_limit_watts": 750,
            "0 energy_joules_total": 41_797_534_008_632 * 15.3e-6,
            "0 temperature_celsius": 67,
            "0 memory_temperature_celsius": 49,
            "0 clock_hertz sm": 2.105e9,
            "0 clock_hertz memory": 1.3e9,
            "0 ecc_errors_total corrected": 1,
            "0 ecc_errors_total uncorrected": 2,
            "0 info AMD Instinct MI300X OAM 6.12.12": 1,
            "1 utilization_ratio": 0.03,
            "1 memory_utilization_ratio": 0.01,
            "1 memory_used_bytes": 1024 * 2**20,
            "1 memory_free_bytes": (46064 - 1024) * 2**20,
            "1 memory_total_bytes": 46064 * 2**20,
            "1 power_watts": 40,
            "1 power_limit_watts": 300,
            "1 temperature_celsius": 44,
            "1 clock_hertz sm": 4.3e7,
            "1 info AMD Radeon Pro W7900 6.12.12": 1,
        }
    )
    check_golden("amd", exporter.collect())


def test_promtool_has_no_findings() -> None:
    assert promtool_findings("amd") == []


@pytest.mark.parametrize(
    ("gpu", "name", "value"),
    [
        (Gpu(power={"socket_power": 140, "current_socket_power": 4294967295}), "power_watts", 140),
        (Gpu(power={"current_socket_power": "N/A", "average_socket_power": "N/A"}), "power_watts", None),
        (Gpu(activity={"gfx_activity": "N/A", "umc_activity": 65535}), "utilization_ratio", None),
        (Gpu(activity={"gfx_activity": "N/A", "umc_activity": 65535}), "memory_utilization_ratio", None),
        (Gpu(activity={"gfx_activity": 0}), "utilization_ratio", 0),
        (Gpu(ticks=0), "energy_joules_total", None),  # the second die of an MI250X
        (Gpu(celsius={1: 67000}), "temperature_celsius", 67),  # libraries before ROCm 6
        (Gpu(celsius={}), "temperature_celsius", None),
        (Gpu(vram=None), "memory_free_bytes", None),
    ],
)
def test_unsupported_metrics_are_left_out(gpu: Gpu, name: str, value: float | None) -> None:
    assert values(AmdExporter(OPTIONS, AmdSmi(gpu))).get(f"0 {name}") == value


def test_an_old_library_gives_the_metrics_it_supports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(AmdSmi, "amdsmi_get_power_cap_info")
    found = values(AmdExporter(OPTIONS, AmdSmi(Gpu())))
    assert "0 power_limit_watts" not in found
    assert found["0 power_watts"] == 287


def test_a_lost_gpu_affects_no_other() -> None:
    lost, other = Gpu(), radeon()
    exporter = AmdExporter(OPTIONS, AmdSmi(lost, other))
    assert "0 power_watts" in values(exporter)
    lost.lost = True
    found = values(exporter)
    assert not any(name.startswith("0 ") and "info" not in name for name in found)
    assert found["1 power_watts"] == 40


def test_gpus_are_found_again_after_a_driver_restart() -> None:
    smi = AmdSmi(Gpu())
    exporter = AmdExporter(OPTIONS, smi)
    assert values(exporter)["0 power_watts"] == 287
    smi.gpus[0].lost = True
    with pytest.raises(RuntimeError, match="no AMD GPU answers"):
        values(exporter)
    assert smi.opened == 0
    smi.gpus = [radeon()]
    assert values(exporter)["0 power_watts"] == 40
    exporter.close()
    exporter.close()
    assert smi.opened == 0


def test_memory_of_a_run(run: subprocess.Popen[bytes], tmp_path: Path) -> None:
    gpu = Gpu(processes=[process(run.pid, 5 * 2**30), process(1, 2**30)])
    found = values(AmdExporter(OPTIONS, AmdSmi(gpu)))
    assert found[f"0 run_memory_bytes {RUN}"] == 5 * 2**30
    assert found[f"0 run_processes {RUN}"] == 1
    own = AmdExporter(ExporterOptions(home=tmp_path, own_runs=True), AmdSmi(gpu))
    assert f"0 run_processes {RUN}" not in values(own), "it is another home's"
    (tmp_path / "runs" / RUN).mkdir(parents=True)
    assert values(own)[f"0 run_processes {RUN}"] == 1


def test_check_names_the_reason() -> None:
    smi = AmdSmi()
    assert AmdExporter(OPTIONS, smi).check() == "this host has no AMD GPU"
    assert smi.opened == 0
    smi.driver = False
    reason = AmdExporter(OPTIONS, smi).check()
    assert reason is not None
    assert "AMDSMI_STATUS_DRIVER_NOT_LOADED" in reason


def test_check_names_a_missing_or_broken_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    reason = AmdExporter(OPTIONS).check()
    assert reason is not None
    assert "`pip install amdsmi`" in reason
    (tmp_path / "amdsmi.py").write_text("raise OSError('libamd_smi.so: cannot open shared object file')\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    reason = AmdExporter(OPTIONS).check()
    assert reason is not None
    assert "libamd_smi.so: cannot open shared object file" in reason
