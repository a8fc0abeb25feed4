"""The listener ``dcgm`` against captured output, hand-made readings and dcgm-exporter's own body, to the byte."""

# ruff: noqa: N802 - stubs have the names of NVML

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bench.errors import BadRequest, ServiceFailed
from bench.gpu import Gpu, MigInstance
from bench.gpu.reading import DeviceReading, GpuReading, Reading
from bench.processes import read_stat
from collector.exposition import Parser
from exporters.dcgm import DcgmExporter
from exporters.dcgm.fields import default_list
from exporters.registry import ExporterOptions
from exporters.server import serve
from exporters.text import render

DATA = Path(__file__).parents[1] / "data"
GOLDEN = DATA / "golden"
DCGMI = DATA / "dcgmi"
FAKE = Path(__file__).parents[1] / "fake_dcgmi.py"


class NoNvml:
    """NVML where there is no driver."""

    class NVMLError(Exception): ...

    def nvmlInit(self) -> None:
        raise self.NVMLError("Driver Not Loaded")


class Given:
    """What reads hand-made readings, one after the other; the last one stays."""

    def __init__(self, *readings: Reading, problem: str | None = None) -> None:
        self.readings = list(readings)
        self.reason = problem

    def __call__(self, nvml: object) -> Given:
        return self

    def problem(self) -> str | None:
        return self.reason

    def read(self) -> Reading:
        return self.readings.pop(0) if len(self.readings) > 1 else self.readings[0]

    def close(self) -> None: ...


def exporter(tmp_path: Path, reader: Given, **environment: str) -> DcgmExporter:
    options = ExporterOptions(home=tmp_path)
    return DcgmExporter(options, environment={"PATH": ""} | environment, nvml=NoNvml(), reader=reader, hostname="n1")


Played = Callable[..., tuple[DcgmExporter, Path]]


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Played]:
    """Make listeners whose ``dcgmi`` plays a folder of `DCGMI`, of which they have a copy to change."""
    monkeypatch.setattr("exporters.dcgm.dmon._FIRST_SECONDS", 20.0)  # where many tests run, a program starts slowly
    made = []
    program = tmp_path / "bin" / "dcgmi"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\n{FAKE.read_text()}")
    program.chmod(0o755)

    def make(
        name: str, nvml: object = None, reader: Given | None = None, **environment: str
    ) -> tuple[DcgmExporter, Path]:
        folder = tmp_path / name
        shutil.copytree(DCGMI / name, folder)
        found = {"PATH": str(program.parent), "FAKE_DCGMI": str(folder), "FAKE_DCGMI_SPEED": "0.02", **environment}
        reader = reader or Given(problem="Driver Not Loaded")
        made.append(
            DcgmExporter(
                ExporterOptions(home=tmp_path), environment=found, nvml=nvml or NoNvml(), reader=reader, hostname="n1"
            )
        )
        return made[-1], folder

    yield make
    for one in made:
        one.close()


def body(listener: DcgmExporter) -> str:
    return render(listener.collect()).decode()


def until(listener: DcgmExporter, expected: Callable[[str], bool]) -> str:
    """Return the first body that is as expected."""
    deadline = time.monotonic() + 20
    while not expected(text := body(listener)):
        assert time.monotonic() < deadline, text
        time.sleep(0.02)
    return text


def lines(text: str, metric: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(f"{metric}{{")]


def figures(text: str, metric: str) -> list[str]:
    return [line.rpartition(" ")[2] for line in lines(text, metric)]


H100 = Gpu(0, "GPU-8b1f6c0e-3a5d-4a4f-9c39-5f0d2a7e61b4", "NVIDIA H100 80GB HBM3", 80 * 2**30)
SMALL = MigInstance(7, "MIG-1", "1g.10gb")
LARGE = MigInstance(3, "MIG-2", "2g.20gb")
BOARD = {
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


def gpu(*devices: DeviceReading, simulated: bool = False, activity: str | None = "gpm") -> Reading:
    board = Gpu(H100.index, H100.uuid, H100.name, H100.memory_bytes, simulated=simulated)
    reading = GpuReading(board, 0, "00000000:07:00.0", BOARD, devices, last_xid=0, activity=activity)
    return Reading(0.0, "575.57.08", (reading,))


def instance(mig: MigInstance, **figures: float) -> DeviceReading:
    return DeviceReading(mig, {"memory_used": 4096.0 * 2**20, "graphics_active": 0.25} | figures)


@pytest.mark.parametrize("name", ["a100-mig", "h100", "t4"])
def test_dcgms_figures_to_the_byte(played: Played, name: str) -> None:
    listener, _ = played(name)
    assert listener.check() is None
    assert body(listener) == (GOLDEN / f"dcgm-{name}.txt").read_text()


@pytest.mark.parametrize(
    ("name", "reading"),
    [
        ("gpm-h100", gpu(DeviceReading(None, WHOLE))),
        ("gpm-h100-mig", gpu(instance(LARGE, sm_active=0.75), instance(SMALL, sm_active=0.068680))),
        ("gpm-simulated", gpu(instance(SMALL), simulated=True)),
    ],
)
def test_gpms_figures_to_the_byte(tmp_path: Path, name: str, reading: Reading) -> None:
    listener = exporter(tmp_path, Given(reading))
    assert listener.check() is None
    assert body(listener) == (GOLDEN / f"dcgm-{name}.txt").read_text()


GOLDENS = sorted(path.name for path in GOLDEN.glob("dcgm-*.txt"))


@pytest.mark.parametrize("name", GOLDENS)
def test_bodies_are_read_by_prometheus_and_by_our_collector(name: str) -> None:
    text = (GOLDEN / name).read_text()
    count = sum(not line.startswith("#") for line in text.splitlines())
    assert sum(len(family.samples) for family in text_string_to_metric_families(text)) == count > 0
    parser = Parser()
    parser.parse(text.encode())
    assert len(parser.series) == count
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    assert {series.metric: series.kind for series in parser.series} == kinds


def test_names_types_helps_and_labels_are_the_originals() -> None:
    """As in a body of dcgm-exporter's own; a newer one says ``hostname``."""
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


def test_promtool_finds_what_it_finds_in_the_original() -> None:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed: it comes with Prometheus")
    found = {}
    for name in GOLDENS:
        text = (GOLDEN / name).read_bytes()
        answer = subprocess.run([program, "check", "metrics"], input=text, capture_output=True, timeout=30, check=False)
        found[name] = set((answer.stdout + answer.stderr).decode().splitlines())
    allowed = set((GOLDEN / "dcgm-promtool.findings").read_text().splitlines())
    assert set().union(*found.values()) == allowed


def test_the_old_form_of_dmon_is_read(played: Played) -> None:
    """Right-aligned, as version 2 of DCGM prints it, played from NVIDIA's user guide."""
    listener, _ = played("docs", BENCH_DCGM_FIELDS=str(DCGMI / "docs" / "list.csv"), FAKE_DCGMI_STAYS="60")
    text = until(listener, lambda text: "0.985000" in text)
    assert figures(text, "DCGM_FI_PROF_GR_ENGINE_ACTIVE") == ["0.986000", "0.985000"]
    assert figures(text, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE") == ["0.953000", "0.952000"]
    assert re.findall(r'GPU_I_ID="(\d+)"', text) == ["1", "2"] * 2


def test_one_child_watches_what_the_hierarchy_names_and_nothing_of_others_is_touched(played: Played) -> None:
    listener, folder = played("a100-mig", CUDA_VISIBLE_DEVICES="1")
    for _ in range(3):
        body(listener)
    calls = (folder / "calls").read_text().splitlines()
    numbers = ",".join(str(counter.field.number) for counter in default_list())
    assert calls == [
        "discovery -l",  # whether DCGM answers
        "discovery -l",
        "discovery -c",
        "dmon -i i:3,i:2,i:0,i:1 -e 50 -c 1",
        f"dmon -i 0,1,i:3,i:2,i:0,i:1 -e {numbers} -d 1000",
    ]


def test_figures_move_on(played: Played) -> None:
    listener, folder = played("h100")
    assert figures(body(listener), "DCGM_FI_PROF_SM_ACTIVE") == ["0.874000"]
    change(folder, "GPU 0", {"1002": "0.125"})
    until(listener, lambda text: figures(text, "DCGM_FI_PROF_SM_ACTIVE") == ["0.125000"])


@pytest.mark.parametrize("cell", ["N/A", "", "9223372036854775792", "9223372036854775795", "2147483634", "<<<NULL>>>"])
def test_what_a_gpu_does_not_have_is_left_out(played: Played, cell: str) -> None:
    listener, folder = played("h100")
    change(folder, "GPU 0", {"100": cell, "1002": "N/A"})
    text = body(listener)
    assert "DCGM_FI_DEV_SM_CLOCK" not in text
    assert "DCGM_FI_PROF_SM_ACTIVE" not in text
    assert figures(text, "DCGM_FI_DEV_MEM_CLOCK") == ["2619"]


@pytest.mark.parametrize("cell", ["140737488355328.000", "140737488355331.000", "nan", "inf"])
def test_blanks_of_floating_point_are_left_out(played: Played, cell: str) -> None:
    listener, folder = played("h100")
    change(folder, "GPU 0", {"155": cell})
    assert "DCGM_FI_DEV_POWER_USAGE" not in body(listener)


def test_a_child_that_ends_is_started_again(played: Played) -> None:
    listener, folder = played("h100")
    body(listener)
    (folder / "dmon.txt").write_text("#Entity\n")  # the next one ends at once
    pid = child(listener)
    os.kill(pid, 9)
    wait_for_end(pid)
    with pytest.raises(ServiceFailed, match="dcgmi dmon has ended with status 0"):
        until(listener, lambda text: False)
    with pytest.raises(ServiceFailed, match="dcgmi dmon has ended"):
        body(listener)
    calls = (folder / "calls").read_text().count("dmon")
    assert calls == 3, "with and without profiling; after that it is not asked every second"


def test_a_child_that_is_slow_to_start_is_waited_for(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("exporters.dcgm.dmon._FIRST_SECONDS", 0.0)
    listener, _ = played("h100")
    assert body(listener) == "", "no figures yet, and no failure either"
    first = child(listener)
    until(listener, lambda text: "DCGM_FI_PROF_SM_ACTIVE" in text)
    assert child(listener) == first


def test_a_host_engine_that_hangs_is_noticed(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    listener, _ = played("h100", FAKE_DCGMI_SPEED="1000")
    body(listener)
    monkeypatch.setattr("exporters.dcgm.dmon._STALE_SECONDS", 0.0)
    with pytest.raises(ServiceFailed, match="dcgmi dmon says nothing: the host engine of DCGM does not answer"):
        body(listener)


def test_where_the_profiling_module_is_missing_the_rest_is_shown(
    played: Played, caplog: pytest.LogCaptureFixture
) -> None:
    listener, folder = played("h100")
    (folder / "no-profiling").touch()
    with caplog.at_level(logging.WARNING):
        text = body(listener)
    assert figures(text, "DCGM_FI_DEV_GPU_UTIL") == ["96"]
    assert "DCGM_FI_PROF" not in text
    assert "DCGM has no profiling figures here" in caplog.text
    assert "is not loaded" in caplog.text


def test_instances_that_come_and_go_are_followed(played: Played) -> None:
    """NVML tells at once, by the UUIDs of the instances."""
    nvml = Mig(["1g.5gb"])
    listener, folder = played("docs", nvml=nvml, BENCH_DCGM_FIELDS=str(DCGMI / "docs" / "list.csv"))
    (folder / "dmon.txt").unlink()
    (folder / "figures.json").write_text('{"GPU 0": {}, "GPU-I 0": {"1001": "0.500"}, "GPU-I 1": {"1001": "0.250"}}')
    assert len(figures(body(listener), "DCGM_FI_PROF_GR_ENGINE_ACTIVE")) == 2
    first = child(listener)
    hierarchy = (folder / "discovery-c.txt").read_text().splitlines(keepends=True)
    (folder / "discovery-c.txt").write_text("".join(line for line in hierarchy if "0/2" not in line))
    nvml.profiles = ["1g.5gb", "2g.10gb"]
    text = body(listener)
    assert figures(text, "DCGM_FI_PROF_GR_ENGINE_ACTIVE") == ["0.500000"]
    assert 'GPU_I_PROFILE="2g.10gb",GPU_I_ID="1"' in text, "NVML's profile, at the second"
    assert child(listener) != first
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)


def test_without_nvml_the_hierarchy_is_asked_for_again_now_and_then(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener, folder = played("a100-mig")
    assert len(figures(body(listener), "DCGM_FI_PROF_GR_ENGINE_ACTIVE")) == 5
    (folder / "discovery-c.txt").write_text((DCGMI / "h100" / "discovery-c.txt").read_text())
    assert len(figures(body(listener), "DCGM_FI_PROF_GR_ENGINE_ACTIVE")) == 5
    monkeypatch.setattr("exporters.dcgm.dcgmi._LOOK_AGAIN_SECONDS", 0.0)
    assert len(figures(body(listener), "DCGM_FI_PROF_GR_ENGINE_ACTIVE")) == 2


def test_close_ends_the_child(played: Played) -> None:
    listener, _ = played("h100")
    body(listener)
    pid = child(listener)
    listener.close()
    listener.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_child_that_has_started_another_is_ended_with_it(played: Played, tmp_path: Path) -> None:
    """Where dcgmi is a script around the program, that one goes on and keeps the pipe open when the script alone ends."""
    listener, folder = played("h100")
    program = tmp_path / "bin" / "dcgmi"
    program.rename(program.with_name("original"))
    program.write_text(f'#!/bin/sh\n"{program.with_name("original")}" "$@" &\necho $! >> "{folder}/pids"\nwait $!\n')
    program.chmod(0o755)
    body(listener)
    closing = threading.Thread(target=listener.close, daemon=True)
    closing.start()
    closing.join(10)
    assert not closing.is_alive()
    wait_for_end(int((folder / "pids").read_text().split()[-1]))


def test_where_the_host_engine_does_not_answer_gpm_is_asked(played: Played) -> None:
    listener, folder = played("h100", reader=Given(gpu(DeviceReading(None, WHOLE))))
    (folder / "engine-down").touch()
    assert listener.check() is None
    assert figures(body(listener), "DCGM_FI_PROF_SM_ACTIVE") == ["0.874123"]


def test_what_is_missing_is_said(tmp_path: Path, played: Played) -> None:
    t4 = gpu(DeviceReading(None, WHOLE), activity=None)
    needs = "it needs DCGM (dcgmi) or a GPU with GPM (Hopper or later)"
    assert exporter(tmp_path, Given(problem="Driver Not Loaded")).check() == f"{needs}; Driver Not Loaded"
    assert exporter(tmp_path, Given(Reading(0, "575"))).check() == f"{needs}; there is no GPU"
    assert exporter(tmp_path, Given(t4)).check() == f"{needs}; GPU 0 is an NVIDIA H100 80GB HBM3"
    listener, folder = played("t4", reader=Given(t4))
    (folder / "engine-down").touch()
    said = "dcgmi: Error: unable to establish a connection to the specified host: localhost"
    assert listener.check() == f"{needs}; {said}; GPU 0 is an NVIDIA H100 80GB HBM3"


def test_the_server_adds_what_it_says_of_every_listener(tmp_path: Path) -> None:
    listener = exporter(tmp_path, Given(gpu(DeviceReading(None, WHOLE))))
    with serve(listener) as server, urllib.request.urlopen(server.url, timeout=10) as answer:
        text = answer.read().decode()
    assert text.startswith((GOLDEN / "dcgm-gpm-h100.txt").read_text())
    assert 'bench_exporter_up{exporter="dcgm"} 1.0' in text


def test_jobs_of_a_cluster_are_labels(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs"
    listener = exporter(tmp_path, Given(gpu(instance(SMALL), instance(LARGE))), DCGM_HPC_JOB_MAPPING_DIR=str(jobs))
    assert "hpc_job" not in body(listener), "the folder is not there yet"
    jobs.mkdir()
    (jobs / "0.7").write_text("4711\n4712\n\n")
    (jobs / "0.3").write_text("")
    (jobs / "0").write_text("whole\n")
    (jobs / "notes.txt").write_text("4713\n")
    found = lines(body(listener), "DCGM_FI_PROF_GR_ENGINE_ACTIVE")
    assert [re.findall(r'GPU_I_ID="(\d+)".*,DCGM_FI_DRIVER_VERSION="575.57.08"(?:,hpc_job="(.*)")?}', line)[0] for line in found] == [
        ("7", "4711"), ("7", "4712"), ("3", ""),
    ]  # fmt: skip


def test_ours_come_before_dcgm_exporters_variables(tmp_path: Path) -> None:
    (tmp_path / "ours.csv").write_text("DCGM_FI_DEV_GPU_TEMP, gauge, T\n")
    (tmp_path / "theirs.csv").write_text("DCGM_FI_DEV_SM_CLOCK, gauge, C\n")
    theirs = {"DCGM_EXPORTER_COLLECTORS": str(tmp_path / "theirs.csv")}
    reading = gpu(DeviceReading(None, WHOLE))
    assert "# HELP DCGM_FI_DEV_SM_CLOCK C\n" in body(exporter(tmp_path, Given(reading), **theirs))
    text = body(exporter(tmp_path, Given(reading), BENCH_DCGM_FIELDS=str(tmp_path / "ours.csv"), **theirs))
    assert re.findall("# TYPE (.*)", text) == ["DCGM_FI_DEV_GPU_TEMP gauge"]


def test_a_gpu_in_mig_mode_without_instances_shows_its_board(tmp_path: Path) -> None:
    text = body(exporter(tmp_path, Given(gpu())))
    assert figures(text, "DCGM_FI_DEV_POWER_USAGE") == ["512.250000"]
    assert "GPU_I" not in text
    assert "DCGM_FI_DEV_FB_USED" not in text


def test_a_bad_list_is_refused_when_the_listener_is_made(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"none\.csv: the list of DCGM fields cannot be read: No such file"):
        exporter(tmp_path, Given(gpu()), BENCH_DCGM_FIELDS=str(tmp_path / "none.csv"))


class Mig(NoNvml):
    """NVML of one A100 with instances of the given profiles, whose ids count from 1."""

    NVML_DEVICE_MIG_ENABLE = 1
    SIMULATED = False

    class NVMLError_NotSupported(NoNvml.NVMLError): ...  # noqa: N801

    class NVMLError_NotFound(NoNvml.NVMLError): ...  # noqa: N801

    class NVMLError_InvalidArgument(NoNvml.NVMLError): ...  # noqa: N801

    def __init__(self, profiles: list[str]) -> None:
        self.profiles = profiles

    def nvmlInit(self) -> None: ...

    def nvmlShutdown(self) -> None: ...

    def nvmlSystemGetDriverVersion(self) -> str:
        return "450.80.02"

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:
        return 11000

    def nvmlDeviceGetCount(self) -> int:
        return 1

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return -1

    def nvmlDeviceGetMigMode(self, handle: int) -> tuple[int, int]:
        return 1, 1

    def nvmlDeviceGetUUID(self, handle: int) -> str:
        return "GPU-5fd15f35-e148-2992-4ecb-9825e534f253" if handle < 0 else f"MIG-{len(self.profiles)}-{handle}"

    def nvmlDeviceGetName(self, handle: int) -> str:
        return "NVIDIA A100-SXM4-40GB" + (f" MIG {self.profiles[-1]}" if handle >= 0 else "")

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> object:
        return type("Memory", (), {"total": 40 * 2**30})

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: int) -> int:
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: int, number: int) -> int:
        if number:
            raise self.NVMLError_NotFound
        return number

    def nvmlDeviceGetGpuInstanceId(self, handle: int) -> int:
        return 1


def change(folder: Path, entity: str, texts: dict[str, str]) -> None:
    """Change what the next row says; the program may be reading."""
    path = folder / "figures.json"
    found = json.loads(path.read_text())
    found[entity] |= texts
    path.with_suffix(".new").write_text(json.dumps(found))
    path.with_suffix(".new").replace(path)


def child(listener: DcgmExporter) -> int:
    """Return the pid of the listener's one child, which may just be about to begin."""
    deadline = time.monotonic() + 20
    while len(found := _children()) != 1:
        assert time.monotonic() < deadline, found
        time.sleep(0.01)
    return found[0]


def wait_for_end(pid: int) -> None:
    deadline = time.monotonic() + 20
    while (left := read_stat(pid)) is not None and not left.zombie:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _children() -> list[int]:
    return [
        int(path.parent.name)
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if "-d\x001000" in _text(path) and f"PPid:\t{os.getpid()}\n" in _text(path.parent / "status")
    ]


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # a process that has just ended
        return ""


def test_simulated_gpus_have_what_dcgm_gives(tmp_path: Path) -> None:
    """An A100 has no GPM: the simulation stands for DCGM."""
    listener = DcgmExporter(ExporterOptions(tmp_path, "1xA100:2x1g.5gb,1xT4"), environment={}, hostname="n1")
    assert listener.check() is None
    text = until(listener, lambda text: "DCGM_FI_PROF_SM_ACTIVE" in text)
    listener.close()
    assert re.findall(r'gpu="(\d)".*?(?:GPU_I_ID="(\d+)",)?Hostname', "\n".join(lines(text, "DCGM_FI_PROF_SM_ACTIVE"))) == [
        ("0", "7"), ("0", "8"), ("1", ""),
    ]  # fmt: skip
    shown = [line for line in text.splitlines() if not line.startswith("#")]
    assert all(',simulated="true"} ' in line for line in shown)


def test_a_simulated_gpu_for_which_dcgm_has_no_profiling_is_refused(tmp_path: Path) -> None:
    listener = DcgmExporter(ExporterOptions(tmp_path, "1xRTX4090"), environment={})
    assert (listener.check() or "").endswith("; GPU 0 is an NVIDIA GeForce RTX 4090")
