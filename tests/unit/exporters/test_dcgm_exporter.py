"""The exporter ``dcgm`` against captured output, synthetic samples and dcgm-exporter's exposition, byte by byte."""

from __future__ import annotations

import re
import shutil
import subprocess
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hypergauge.collector.convert.exposition import Parser
from hypergauge.core.errors import BadRequest
from hypergauge.exporters.dcgm import DcgmExporter
from hypergauge.exporters.serving.registry import ExporterOptions
from hypergauge.exporters.serving.server import ExporterServer
from hypergauge.gpu import Gpu, MigInstance
from hypergauge.gpu.sampling.sample import DeviceSample, GpuSample, Sample
from tests.support.exporters.dcgm import DATA, GOLDEN, Given, Played, exposition, lines, make_exporter, until, values
from tests.support.waiting import HUNG_SECONDS

H100 = Gpu(0, "GPU-8b1f6c0e-3a5d-4a4f-9c39-5f0d2a7e61b4", "NVIDIA H100 80GB HBM3", 80 * 2**30)
SMALL = MigInstance(7, "MIG-1", "1g.10gb")
LARGE = MigInstance(3, "MIG-2", "2g.20gb")
METRICS = {
    "power": 512.25, "energy": 1234567.8915, "temperature": 52.0, "memory_temperature": 46.0, "sm_clock": 1980e6,
    "memory_clock": 2619e6, "pcie_replays": 0.0, "remapped_corrected": 0.0, "remapped_uncorrected": 2.0,
    "remap_failure": 0.0,
}  # fmt: skip
WHOLE = {
    "utilization": 0.29, "memory_utilization": 0.41, "encoder_utilization": 0.0, "decoder_utilization": 0.25,
    "memory_used": 40960.0 * 2**20, "memory_free": 40448.75 * 2**20, "memory_reserved": 151.0 * 2**20,
    "graphics_active": 0.96, "sm_active": 0.87412345678, "sm_occupancy": 0.5, "tensor_active": 0.31,
    "memory_active": 0.27, "fp64_active": 0.0, "fp32_active": 0.114, "fp16_active": 0.052,
    "pcie_transmit": 104857600.4, "pcie_receive": 209715200.0,
}  # fmt: skip


def gpu(*devices: DeviceSample, simulated: bool = False, activity: str | None = "gpm") -> Sample:
    gpu = Gpu(H100.index, H100.uuid, H100.name, H100.memory_bytes, simulated=simulated)
    sample = GpuSample(gpu, 0, "00000000:07:00.0", METRICS, devices, last_xid=0, activity=activity)
    return Sample(0.0, "575.57.08", (sample,))


def instance(mig: MigInstance, **values: float) -> DeviceSample:
    return DeviceSample(mig, {"memory_used": 4096.0 * 2**20, "graphics_active": 0.25} | values)


@pytest.mark.parametrize("name", ["a100-mig", "h100", "t4"])
def test_dcgm_values_byte_by_byte(played: Played, name: str) -> None:
    exporter, _ = played(name)
    assert exporter.check() is None
    assert exposition(exporter) == (GOLDEN / f"dcgm-{name}.txt").read_text()


@pytest.mark.parametrize(
    ("name", "sample"),
    [
        ("gpm-h100", gpu(DeviceSample(None, WHOLE))),
        ("gpm-h100-mig", gpu(instance(LARGE, sm_active=0.75), instance(SMALL, sm_active=0.068680))),
        ("gpm-simulated", gpu(instance(SMALL), simulated=True)),
    ],
)
def test_gpm_values_byte_by_byte(tmp_path: Path, name: str, sample: Sample) -> None:
    exporter = make_exporter(tmp_path, Given(sample))
    assert exporter.check() is None
    assert exposition(exporter) == (GOLDEN / f"dcgm-{name}.txt").read_text()


GOLDENS = sorted(path.name for path in GOLDEN.glob("dcgm-*.txt"))


@pytest.mark.parametrize("name", GOLDENS)
def test_expositions_are_valid_for_prometheus_and_the_collector(name: str) -> None:
    text = (GOLDEN / name).read_text()
    count = sum(not line.startswith("#") for line in text.splitlines())
    assert sum(len(family.samples) for family in text_string_to_metric_families(text)) == count > 0
    parser = Parser()
    parser.parse(text.encode())
    assert len(parser.series) == count
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    assert {series.metric: series.kind for series in parser.series} == kinds


def test_names_types_helps_and_labels_are_the_originals() -> None:
    """As in dcgm-exporter's exposition; newer versions use ``hostname``."""
    original = (DATA / "scrapes" / "dcgm_exporter.prom").read_text().replace(",hostname=", ",Hostname=")
    ours = (GOLDEN / "dcgm-h100.txt").read_text()

    def heads(text: str) -> dict[str, tuple[str, str]]:
        pairs = re.findall(r"^# HELP (\S+) (.*)\n# TYPE \S+ (\S+)$", text, re.MULTILINE)
        return {name: (help_text, kind) for name, help_text, kind in pairs}

    def forms(text: str) -> set[tuple[str, ...]]:
        return {tuple(re.findall(r'(\w+)="', line)) for line in text.splitlines() if not line.startswith("#")}

    assert heads(original).items() <= heads(ours).items()
    assert heads(ours).keys() - heads(original).keys() == {
        f"DCGM_FI_PROF_{name}" for name in ("SM_ACTIVE", "SM_OCCUPANCY", *(f"PIPE_FP{n}_ACTIVE" for n in (16, 32, 64)))
    }
    assert forms(ours) == forms(original)


def test_promtool_has_the_same_findings_as_for_the_original() -> None:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed: it comes with Prometheus")
    found = {}
    for name in GOLDENS:
        text = (GOLDEN / name).read_bytes()
        answer = subprocess.run(
            [program, "check", "metrics"], input=text, capture_output=True, timeout=HUNG_SECONDS, check=False
        )
        found[name] = set((answer.stdout + answer.stderr).decode().splitlines())
    allowed = set((GOLDEN / "dcgm-promtool.findings").read_text().splitlines())
    assert set().union(*found.values()) == allowed


def test_without_a_host_engine_gpm_is_the_source(played: Played) -> None:
    exporter, folder = played("h100", reader=Given(gpu(DeviceSample(None, WHOLE))))
    (folder / "engine-down").touch()
    assert exporter.check() is None
    assert values(exposition(exporter), "DCGM_FI_PROF_SM_ACTIVE") == ["0.874123"]


def test_check_names_missing_sources(tmp_path: Path, played: Played) -> None:
    t4 = gpu(DeviceSample(None, WHOLE), activity=None)
    needs = "it needs DCGM (dcgmi) or a GPU with GPM (Hopper or later)"
    assert make_exporter(tmp_path, Given(problem="Driver Not Loaded")).check() == f"{needs}; Driver Not Loaded"
    assert make_exporter(tmp_path, Given(Sample(0, "575"))).check() == f"{needs}; there is no GPU"
    assert make_exporter(tmp_path, Given(t4)).check() == f"{needs}; GPU 0 is an NVIDIA H100 80GB HBM3"
    exporter, folder = played("t4", reader=Given(t4))
    (folder / "engine-down").touch()
    message = "dcgmi: Error: unable to establish a connection to the specified host: localhost"
    assert exporter.check() == f"{needs}; {message}; GPU 0 is an NVIDIA H100 80GB HBM3"


def test_the_server_adds_its_own_metrics(tmp_path: Path) -> None:
    exporter = make_exporter(tmp_path, Given(gpu(DeviceSample(None, WHOLE))))
    with ExporterServer(exporter) as server, urllib.request.urlopen(server.url, timeout=HUNG_SECONDS) as answer:
        text = answer.read().decode()
    assert text.startswith((GOLDEN / "dcgm-gpm-h100.txt").read_text())
    assert 'bench_exporter_up{exporter="dcgm"} 1.0' in text


def test_jobs_of_a_cluster_are_labels(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs"
    exporter = make_exporter(tmp_path, Given(gpu(instance(SMALL), instance(LARGE))), DCGM_HPC_JOB_MAPPING_DIR=str(jobs))
    assert "hpc_job" not in exposition(exporter), "the folder does not exist yet"
    jobs.mkdir()
    (jobs / "0.7").write_text("4711\n4712\n\n")
    (jobs / "0.3").write_text("")
    (jobs / "0").write_text("whole\n")
    (jobs / "notes.txt").write_text("4713\n")
    found = lines(exposition(exporter), "DCGM_FI_PROF_GR_ENGINE_ACTIVE")
    assert [re.findall(r'GPU_I_ID="(\d+)".*,DCGM_FI_DRIVER_VERSION="575.57.08"(?:,hpc_job="(.*)")?}', line)[0] for line in found] == [
        ("7", "4711"), ("7", "4712"), ("3", ""),
    ]  # fmt: skip


def test_own_variables_precede_dcgm_exporters(tmp_path: Path) -> None:
    (tmp_path / "ours.csv").write_text("DCGM_FI_DEV_GPU_TEMP, gauge, T\n")
    (tmp_path / "theirs.csv").write_text("DCGM_FI_DEV_SM_CLOCK, gauge, C\n")
    theirs = {"DCGM_EXPORTER_COLLECTORS": str(tmp_path / "theirs.csv")}
    sample = gpu(DeviceSample(None, WHOLE))
    assert "# HELP DCGM_FI_DEV_SM_CLOCK C\n" in exposition(make_exporter(tmp_path, Given(sample), **theirs))
    text = exposition(make_exporter(tmp_path, Given(sample), BENCH_DCGM_FIELDS=str(tmp_path / "ours.csv"), **theirs))
    assert re.findall("# TYPE (.*)", text) == ["DCGM_FI_DEV_GPU_TEMP gauge"]


def test_a_gpu_in_mig_mode_without_instances_has_whole_device_metrics(tmp_path: Path) -> None:
    text = exposition(make_exporter(tmp_path, Given(gpu())))
    assert values(text, "DCGM_FI_DEV_POWER_USAGE") == ["512.250000"]
    assert "GPU_I" not in text
    assert "DCGM_FI_DEV_FB_USED" not in text


def test_the_constructor_refuses_a_bad_list(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"none\.csv: .*No such file"):
        make_exporter(tmp_path, Given(gpu()), BENCH_DCGM_FIELDS=str(tmp_path / "none.csv"))


def test_simulated_gpus_have_dcgms_metrics(tmp_path: Path) -> None:
    """An A100 has no GPM: the simulation replaces DCGM."""
    exporter = DcgmExporter(ExporterOptions(tmp_path, "1xA100:2x1g.5gb,1xT4"), environment={}, hostname="n1")
    assert exporter.check() is None
    text = until(exporter, lambda text: len(lines(text, "DCGM_FI_PROF_SM_ACTIVE")) == 3)
    exporter.close()
    assert re.findall(r'gpu="(\d)".*?(?:GPU_I_ID="(\d+)",)?Hostname', "\n".join(lines(text, "DCGM_FI_PROF_SM_ACTIVE"))) == [
        ("0", "7"), ("0", "8"), ("1", ""),
    ]  # fmt: skip
    shown = [line for line in text.splitlines() if not line.startswith("#")]
    assert all(',simulated="true"} ' in line for line in shown)


def test_check_refuses_a_simulated_gpu_without_profiling(tmp_path: Path) -> None:
    exporter = DcgmExporter(ExporterOptions(tmp_path, "1xRTX4090"), environment={})
    assert (exporter.check() or "").endswith("; GPU 0 is an NVIDIA GeForce RTX 4090")
