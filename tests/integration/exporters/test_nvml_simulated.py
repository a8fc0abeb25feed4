"""The exporter ``nvml`` on simulated GPUs kept busy by real processes: usage of runs, and conservation of energy."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hypergauge.core.files.run_folder import RunEnd, RunFolder, SupervisorState
from hypergauge.exporters.nvml.exporter import NvmlExporter
from hypergauge.exporters.serving.registry import ExporterOptions
from hypergauge.exporters.serving.server import ExporterServer
from hypergauge.exporters.serving.text import render
from hypergauge.gpu import Gpu, inventory, load
from hypergauge.gpu.mig import MigControl
from hypergauge.gpu.models import MODELS
from hypergauge.simulation import World
from tests.support.waiting import HUNG_SECONDS

# A process is on a simulated GPU that it names, and GPUs of one model and index have one UUID: who tests something else
# on this host at the same time shall not be on ours.
BEFORE = 5
BURN = "x = bytearray(50_000_000)\nwhile True: pass"
ENERGY = "bench_gpu_attributed_energy_joules_total"
SM = "bench_gpu_run_sm_utilization_ratio"


@dataclass
class Exposition:
    """Values of one exposition, by name and labels."""

    samples: dict[tuple[str, frozenset[tuple[str, str]]], float] = field(default_factory=dict)

    def all(self, name: str, **labels: str) -> list[float]:
        return [number for (one, of), number in self.samples.items() if one == name and labels.items() <= set(of)]

    def one(self, name: str, **labels: str) -> float:
        (number,) = self.all(name, **labels)
        return number

    def labels(self, name: str, **labels: str) -> list[dict[str, str]]:
        return [dict(of) for one, of in self.samples if one == name and labels.items() <= set(of)]


class Host:
    """Home with simulated GPUs, its exporter, and runs."""

    def __init__(self, home: Path, specification: str, stack: contextlib.ExitStack) -> None:
        self.home, self.specification = home, f"{BEFORE}xT4,{specification}"
        self.exporter = NvmlExporter(ExporterOptions(home=home, simulate=self.specification, own_runs=True))
        assert self.exporter.check() is None
        stack.callback(self.exporter.close)
        self._stack = stack
        self.first: dict[str, float] = {}

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        return inventory(self.specification, self.home).gpus[BEFORE:]

    @property
    def world(self) -> World:
        return World.open(self.specification, self.home / "simulated")

    @property
    def mig(self) -> MigControl:
        return MigControl(load(self.specification, self.home))

    def read(self) -> Exposition:
        """Read once, and check that a GPU's energy equals the sum of its parts and that all series are labeled as simulated."""
        text = render(self.exporter.collect()).decode()
        exposition = Exposition()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                assert sample.labels.get("simulated") == "true", sample
                if sample.labels.get("gpu", str(BEFORE)) < str(BEFORE):
                    continue
                exposition.samples[sample.name, frozenset(sample.labels.items())] = sample.value
        for gpu in exposition.labels("bench_gpu_energy_joules_total"):
            name = gpu["UUID"]
            whole = exposition.one("bench_gpu_energy_joules_total", UUID=name)
            parts = ("bench_gpu_idle_energy_joules_total", "bench_gpu_other_energy_joules_total", ENERGY)
            known = sum(sum(exposition.all(part, UUID=name)) for part in parts)
            self.first.setdefault(name, whole - known)
            assert known == pytest.approx(whole - self.first[name], rel=1e-9, abs=1e-6)
        return exposition

    def read_until(self, condition: Callable[[Exposition], object], timeout: float = HUNG_SECONDS) -> Exposition:
        deadline = time.monotonic() + timeout
        while not condition(exposition := self.read()):
            assert time.monotonic() < deadline, exposition
            time.sleep(0.05)
        return exposition

    def start(self, device: str) -> tuple[str, subprocess.Popen[bytes]]:
        """Start a run whose one process keeps `device` busy."""
        run_id = uuid.uuid4().hex
        folder = RunFolder(self.home / "runs" / run_id)
        folder.create({})
        folder.write_state(SupervisorState(1, 2.0, root_pid=3, started_at=time.time()))
        environment = {**os.environ, "BENCH_RUN_ID": run_id, "CUDA_VISIBLE_DEVICES": device}
        process = self._stack.enter_context(subprocess.Popen([sys.executable, "-c", BURN], env=environment))
        self._stack.callback(process.kill)
        return run_id, process

    def end(self, run_id: str) -> None:
        now = time.time()
        RunFolder(self.home / "runs" / run_id).write_end(RunEnd("finished", now - 10, now, 0, None, 1.0, 0, 0, 0))


MakeHost = Callable[[str], Host]


@pytest.fixture
def host(tmp_path: Path) -> Iterator[MakeHost]:
    with contextlib.ExitStack() as stack:
        yield lambda specification: Host(tmp_path, specification, stack)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process without reaping it."""
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)


def cpu_seconds(process: subprocess.Popen[bytes]) -> float:
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = -9
    return usage.ru_utime + usage.ru_stime


def test_a_run_on_a_whole_gpu(host: MakeHost) -> None:
    one = host("1xH100")
    (gpu,) = one.gpus
    one.read()
    earliest = time.time()
    run_id, process = one.start(gpu.uuid)
    latest = time.time()
    of_run = {"run_id": run_id, "UUID": gpu.uuid, "gpu": str(BEFORE)}
    one.read_until(lambda exposition: sum(exposition.all(ENERGY, run_id=run_id)) > 1500)

    def works(exposition: Exposition) -> bool:
        """Return whether the process is running on a CPU now; on a busy machine it may have to wait.

        There is no activity between two samples of the same moment.
        """
        active = [*exposition.all(SM, **of_run), *exposition.all("bench_gpu_sm_active_ratio")]
        return (
            len(active) == 2 and min(*active, exposition.one("bench_gpu_power_watts") - MODELS["H100"].idle_watts) > 0
        )

    busy = one.read_until(works)
    assert busy.one("bench_gpu_run_processes", **of_run) == 1
    assert 50e6 < busy.one("bench_gpu_run_memory_bytes", **of_run) < 200e6
    assert busy.one(SM, **of_run) <= 1
    assert earliest <= busy.one("bench_gpu_run_start_time_seconds", run_id=run_id) <= latest
    assert busy.one("bench_gpu_sm_active_ratio") <= 1
    assert busy.labels("bench_gpu_info")[0]["activity"] == "gpm"
    stop(process)
    one.end(run_id)
    final = one.read()
    assert final.all("bench_gpu_run_processes") == []
    # Its energy is nine tenths of the GPU's range above idle, while it kept a core busy.
    watts = 0.9 * (MODELS["H100"].limit_watts - MODELS["H100"].idle_watts)
    assert sum(final.all(ENERGY, run_id=run_id)) == pytest.approx(watts * cpu_seconds(process), rel=0.05)
    assert final.all("bench_gpu_other_energy_joules_total") == [0]
    free = one.read_until(lambda exposition: exposition.one("bench_gpu_power_watts") == MODELS["H100"].idle_watts)
    assert sum(free.all(ENERGY, run_id=run_id)) == sum(final.all(ENERGY, run_id=run_id))


def test_energy_of_a_shared_gpu_is_split_by_sm_time(host: MakeHost) -> None:
    one = host("1xL4")
    (gpu,) = one.gpus
    one.read()
    runs = dict(one.start(gpu.uuid) for _ in range(2))
    exposition = one.read_until(
        lambda exposition: all(sum(exposition.all(ENERGY, run_id=run_id)) > 30 for run_id in runs)
    )
    for process in runs.values():
        stop(process)
    for run_id in runs:
        one.end(run_id)
    exposition = one.read()
    joules = [sum(exposition.all(ENERGY, run_id=run_id)) for run_id in runs]
    seconds = [cpu_seconds(process) for process in runs.values()]
    assert {labels["method"] for labels in exposition.labels(ENERGY)} <= {"sm_time", "process_count"}
    # SM time is reported in whole per cent, and not for the last interval.
    assert joules[0] / sum(joules) == pytest.approx(seconds[0] / sum(seconds), abs=0.1)


@pytest.mark.parametrize(
    ("specification", "profile", "method"),
    [("1xA100:2x3g.20gb", "3g.20gb", "instance_size"), ("1xH100:2x3g.40gb", "3g.40gb", "instance_activity")],
)
def test_a_run_on_a_mig_instance(host: MakeHost, specification: str, profile: str, method: str) -> None:
    one = host(specification)
    (gpu,) = one.gpus
    one.read()
    run_id, process = one.start(gpu.mig[1].uuid)
    instance = {"UUID": gpu.uuid, "GPU_I_ID": str(gpu.mig[1].gpu_instance_id), "GPU_I_PROFILE": profile}
    exposition = one.read_until(lambda exposition: sum(exposition.all(ENERGY, method=method)) > 50)
    assert exposition.one(ENERGY, method=method, run_id=run_id, **instance) > 50
    assert exposition.one("bench_gpu_run_processes", run_id=run_id, **instance) == 1
    assert exposition.one("bench_gpu_run_memory_bytes", run_id=run_id, **instance) > 50e6
    assert exposition.all(SM) == [], "unknown for processes on MIG instances"
    assert exposition.all("bench_gpu_utilization_ratio") == [], "and for a GPU with instances"
    assert len(exposition.all("bench_gpu_memory_used_bytes")) == 2
    assert len(exposition.all("bench_gpu_power_watts")) == 1, "the GPU's metrics once"
    assert "GPU_I_ID" not in exposition.labels("bench_gpu_power_watts")[0]
    stop(process)
    one.end(run_id)
    assert one.read().one(ENERGY, method=method, run_id=run_id, **instance) > 50
    cpu_seconds(process)


def test_a_lost_gpu_returns(host: MakeHost) -> None:
    one = host("2xH100")
    gpus = one.gpus
    one.read()
    runs = [one.start(gpu.uuid)[0] for gpu in gpus]
    before = one.read_until(lambda exposition: all(sum(exposition.all(ENERGY, run_id=run_id)) > 20 for run_id in runs))
    one.world.lose(BEFORE)
    lost = one.read()
    assert lost.one("bench_gpu_lost", UUID=gpus[0].uuid) == 1
    assert lost.all("bench_gpu_power_watts", UUID=gpus[0].uuid) == []
    assert lost.all(ENERGY, run_id=runs[0]) == []
    assert lost.one("bench_gpu_run_start_time_seconds", run_id=runs[0]) > 0, "the run continues"
    assert sum(lost.all(ENERGY, run_id=runs[1])) >= sum(before.all(ENERGY, run_id=runs[1]))
    one.world.restore(BEFORE)
    after = one.read_until(lambda exposition: exposition.all(ENERGY, run_id=runs[0]))
    assert after.all("bench_gpu_lost") == []
    assert sum(after.all(ENERGY, run_id=runs[0])) >= sum(before.all(ENERGY, run_id=runs[0]))
    one.read_until(
        lambda exposition: sum(exposition.all(ENERGY, run_id=runs[0])) > sum(after.all(ENERGY, run_id=runs[0]))
    )


def test_a_repartition_during_a_read(host: MakeHost) -> None:
    one = host("1xH100:1x3g.40gb")
    (gpu,) = one.gpus
    one.read()
    run_id, process = one.start(gpu.mig[0].uuid)
    one.read_until(lambda exposition: sum(exposition.all(ENERGY, run_id=run_id)) > 20)
    failed: list[BaseException] = []
    done = threading.Event()

    def repartition() -> None:
        try:
            for profile, start in [("1g.10gb", 4), ("2g.20gb", 4), ("1g.10gb", 6)] * 3:
                made = one.mig.create(gpu.uuid, profile, start)
                one.mig.remove(gpu.uuid, made.gpu_instance_id)
        except BaseException as error:  # noqa: BLE001 - the test reports it
            failed.append(error)
        finally:
            done.set()

    thread = threading.Thread(target=repartition)
    thread.start()
    profiles: set[str] = set()
    while not done.is_set():
        exposition = one.read()
        profiles |= {labels["GPU_I_PROFILE"] for labels in exposition.labels("bench_gpu_memory_used_bytes")}
    thread.join()
    assert failed == []
    assert "3g.40gb" in profiles
    stop(process)
    one.end(run_id)
    one.read()
    cpu_seconds(process)
    one.mig.remove(gpu.uuid, gpu.mig[0].gpu_instance_id)
    made = one.mig.create(gpu.uuid, "7g.80gb", 0)
    exposition = one.read()
    assert [labels["GPU_I_ID"] for labels in exposition.labels("bench_gpu_memory_used_bytes")] == [
        str(made.gpu_instance_id)
    ]
    assert exposition.one(ENERGY, run_id=run_id, GPU_I_PROFILE="3g.40gb", method="instance_activity") > 20


def test_it_is_served(host: MakeHost) -> None:
    one = host("1xT4")
    with ExporterServer(one.exporter) as server, urllib.request.urlopen(server.url, timeout=HUNG_SECONDS) as answer:
        text = answer.read().decode()
    assert 'bench_exporter_up{exporter="nvml"} 1.0' in text
    assert "bench_gpu_power_watts{" in text


def test_totals_continue_after_a_driver_restart(host: MakeHost) -> None:
    one = host("1xH100")
    one.read()
    one.world.reload_driver()
    one.first.clear()  # the GPU's counter begins at 0
    errors: list[Exception] = []

    def is_back(exposition: Exposition) -> bool:
        return bool(exposition.all("bench_gpu_power_watts"))

    for _ in range(10):
        try:
            if is_back(one.read()):
                break
        except Exception as error:  # noqa: BLE001 - any error of the driver: the exporter's server counts it
            errors.append(error)
    assert is_back(one.read())
    assert len(errors) <= 1
