"""The exporter ``dcgm`` and its child ``dcgmi dmon``, which may end, hang, or need a restart for new GPUs."""

# ruff: noqa: N802 - stubs have the names of NVML

from __future__ import annotations

import json
import logging
import os
import re
import threading
import time
from pathlib import Path

import pytest

from hypergauge.core.errors import ServiceFailed
from hypergauge.core.system.processes import read_stat
from hypergauge.exporters.dcgm import DcgmExporter
from hypergauge.exporters.dcgm.fields import default_list
from hypergauge.exporters.serving.pace import Pace
from tests.support.exporters.dcgm import DCGMI, NoNvml, Played, exposition, until, values
from tests.support.waiting import HUNG_SECONDS


class Mig(NoNvml):
    """NVML of one A100 with instances of the given profiles and ids from 1 on."""

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
    """Change the next row, while the program may read the file."""
    path = folder / "values.json"
    found = json.loads(path.read_text())
    found[entity] |= texts
    path.with_suffix(".new").write_text(json.dumps(found))
    path.with_suffix(".new").replace(path)


def child(exporter: DcgmExporter) -> int:
    """Return the pid of the exporter's one child, which may be starting."""
    deadline = time.monotonic() + HUNG_SECONDS
    while len(found := _children()) != 1:
        assert time.monotonic() < deadline, found
        time.sleep(0.01)
    return found[0]


def wait_for_end(pid: int) -> None:
    deadline = time.monotonic() + HUNG_SECONDS
    while (left := read_stat(pid)) is not None and not left.zombie:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _children() -> list[int]:
    return [
        int(path.parent.name)
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if "\x00-d\x00" in _text(path) and f"PPid:\t{os.getpid()}\n" in _text(path.parent / "status")
    ]


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # a process that has just ended
        return ""


def test_the_old_format_of_dmon_is_parsed(played: Played) -> None:
    """Right-aligned, as version 2 of DCGM prints it, played from NVIDIA's user guide."""
    exporter, _ = played("docs", BENCH_DCGM_FIELDS=str(DCGMI / "docs" / "list.csv"), FAKE_DCGMI_STAYS="60")
    text = until(exporter, lambda text: "0.985000" in text)
    assert values(text, "DCGM_FI_PROF_GR_ENGINE_ACTIVE") == ["0.986000", "0.985000"]
    assert values(text, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE") == ["0.953000", "0.952000"]
    assert re.findall(r'GPU_I_ID="(\d+)"', text) == ["1", "2"] * 2


def test_one_child_watches_all_entities_and_touches_no_other_watches(played: Played) -> None:
    exporter, folder = played("a100-mig", CUDA_VISIBLE_DEVICES="1")
    for _ in range(3):
        exposition(exporter)
    calls = (folder / "calls").read_text().splitlines()
    numbers = ",".join(str(counter.field.number) for counter in default_list())
    assert calls == [
        "discovery -l",  # whether DCGM answers
        "discovery -l",
        "discovery -c",
        "dmon -i i:3,i:2,i:0,i:1 -e 50 -c 1",
        f"dmon -i 0,1,i:3,i:2,i:0,i:1 -e {numbers} -d 1000",
    ]


def test_values_are_updated(played: Played) -> None:
    exporter, folder = played("h100")
    assert values(exposition(exporter), "DCGM_FI_PROF_SM_ACTIVE") == ["0.874000"]
    change(folder, "GPU 0", {"1002": "0.125"})
    until(exporter, lambda text: values(text, "DCGM_FI_PROF_SM_ACTIVE") == ["0.125000"])


@pytest.mark.parametrize("cell", ["N/A", "", "9223372036854775792", "9223372036854775795", "2147483634", "<<<NULL>>>"])
def test_unsupported_fields_are_left_out(played: Played, cell: str) -> None:
    exporter, folder = played("h100")
    change(folder, "GPU 0", {"100": cell, "1002": "N/A"})
    text = exposition(exporter)
    assert "DCGM_FI_DEV_SM_CLOCK" not in text
    assert "DCGM_FI_PROF_SM_ACTIVE" not in text
    assert values(text, "DCGM_FI_DEV_MEM_CLOCK") == ["2619"]


@pytest.mark.parametrize("cell", ["140737488355328.000", "140737488355331.000", "nan", "inf"])
def test_floating_point_sentinels_are_left_out(played: Played, cell: str) -> None:
    exporter, folder = played("h100")
    change(folder, "GPU 0", {"155": cell})
    assert "DCGM_FI_DEV_POWER_USAGE" not in exposition(exporter)


def test_an_ended_child_is_restarted(played: Played) -> None:
    exporter, folder = played("h100")
    exposition(exporter)
    (folder / "dmon.txt").write_text("#Entity\n")  # the next one ends at once
    pid = child(exporter)
    os.kill(pid, 9)
    wait_for_end(pid)
    with pytest.raises(ServiceFailed, match="dcgmi dmon has ended with status 0"):
        until(exporter, lambda text: False)
    with pytest.raises(ServiceFailed, match="dcgmi dmon has ended"):
        exposition(exporter)
    calls = (folder / "calls").read_text().count("dmon")
    assert calls == 3, "with and without profiling; later attempts are limited"


def test_a_slow_start_is_no_failure(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hypergauge.exporters.dcgm.dmon._FIRST_SECONDS", 0.0)
    monkeypatch.setattr(Pace, "scraped", lambda _: 1.0)
    exporter, _ = played("h100")
    assert exposition(exporter) == "", "no values yet, and no failure either"
    first = child(exporter)
    until(exporter, lambda text: "DCGM_FI_PROF_SM_ACTIVE" in text)
    assert child(exporter) == first


def test_the_child_follows_the_pace_of_the_scrapes(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    exporter, folder = played("h100")
    for seconds in (1.0, 1.0, 0.1, 0.1, 1.0):
        monkeypatch.setattr(Pace, "scraped", lambda _, seconds=seconds: seconds)
        assert "DCGM_FI_PROF_SM_ACTIVE" in exposition(exporter)
    assert re.findall(r"-d (\d+)", (folder / "calls").read_text()) == ["1000", "100", "1000"]


def test_a_hanging_host_engine_raises(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    exporter, _ = played("h100", FAKE_DCGMI_SPEED="1000")
    exposition(exporter)
    monkeypatch.setattr("hypergauge.exporters.dcgm.dmon._STALE_SECONDS", 0.0)
    with pytest.raises(ServiceFailed, match="does not answer"):
        exposition(exporter)


def test_without_the_profiling_module_the_other_fields_are_exposed(
    played: Played, caplog: pytest.LogCaptureFixture
) -> None:
    exporter, folder = played("h100")
    (folder / "no-profiling").touch()
    with caplog.at_level(logging.WARNING):
        text = exposition(exporter)
    assert values(text, "DCGM_FI_DEV_GPU_UTIL") == ["96"]
    assert "DCGM_FI_PROF" not in text
    assert "profiling" in caplog.text
    assert "is not loaded" in caplog.text


def test_new_and_removed_instances_are_noticed(played: Played) -> None:
    """NVML reports them at once, by the UUIDs of the instances."""
    nvml = Mig(["1g.5gb"])
    exporter, folder = played("docs", nvml=nvml, BENCH_DCGM_FIELDS=str(DCGMI / "docs" / "list.csv"))
    (folder / "dmon.txt").unlink()
    (folder / "values.json").write_text('{"GPU 0": {}, "GPU-I 0": {"1001": "0.500"}, "GPU-I 1": {"1001": "0.250"}}')
    assert len(values(exposition(exporter), "DCGM_FI_PROF_GR_ENGINE_ACTIVE")) == 2
    first = child(exporter)
    hierarchy = (folder / "discovery-c.txt").read_text().splitlines(keepends=True)
    (folder / "discovery-c.txt").write_text("".join(line for line in hierarchy if "0/2" not in line))
    nvml.profiles = ["1g.5gb", "2g.10gb"]
    text = exposition(exporter)
    assert values(text, "DCGM_FI_PROF_GR_ENGINE_ACTIVE") == ["0.500000"]
    assert 'GPU_I_PROFILE="2g.10gb",GPU_I_ID="1"' in text, "NVML's profile, at the second"
    assert child(exporter) != first
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)


def test_without_nvml_the_hierarchy_is_read_at_intervals(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    exporter, folder = played("a100-mig")
    assert len(values(exposition(exporter), "DCGM_FI_PROF_GR_ENGINE_ACTIVE")) == 5
    (folder / "discovery-c.txt").write_text((DCGMI / "h100" / "discovery-c.txt").read_text())
    assert len(values(exposition(exporter), "DCGM_FI_PROF_GR_ENGINE_ACTIVE")) == 5
    monkeypatch.setattr("hypergauge.exporters.dcgm.dcgmi._DISCOVERY_SECONDS", 0.0)
    assert len(values(exposition(exporter), "DCGM_FI_PROF_GR_ENGINE_ACTIVE")) == 2


def test_close_ends_the_child(played: Played) -> None:
    exporter, _ = played("h100")
    exposition(exporter)
    pid = child(exporter)
    exporter.close()
    exporter.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_close_ends_the_childs_own_children(played: Played, tmp_path: Path) -> None:
    """If dcgmi is a wrapper script, its program may outlive the script and keep the pipe open."""
    exporter, folder = played("h100")
    program = tmp_path / "bin" / "dcgmi"
    program.rename(program.with_name("original"))
    program.write_text(f'#!/bin/sh\n"{program.with_name("original")}" "$@" &\necho $! >> "{folder}/pids"\nwait $!\n')
    program.chmod(0o755)
    exposition(exporter)
    closing = threading.Thread(target=exporter.close, daemon=True)
    closing.start()
    closing.join(HUNG_SECONDS)
    assert not closing.is_alive()
    wait_for_end(int((folder / "pids").read_text().split()[-1]))
