"""The exporter ``intel``: Intel's discrete GPUs through the kernel's files, with the names of ``nvml``.

The drivers `xe` and `i915` show energy, clocks and temperatures in ``/sys``, and the use by a process in the files of its
descriptors: https://docs.kernel.org/gpu/drm-usage-stats.html. No file has the utilization of the whole GPU.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.core import Metric

from hypergauge.core.system.kernel_file import list_folder, read_file
from hypergauge.core.system.processes import RunProcesses, RunTree
from hypergauge.exporters.serving.families import Families, Measurement
from hypergauge.exporters.serving.gpu_helps import GPU_HELPS
from hypergauge.exporters.serving.registry import ExporterOptions
from hypergauge.gpu.intel import DRIVERS, IntelGpu, intel_gpus

__all__ = ["Client", "IntelExporter", "parse_client"]

_UNITS = {"": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
# Engines that run kernels: in cycles with `xe`, in nanoseconds with `i915`.
_CYCLES, _NANOSECONDS = ("rcs", "ccs"), ("render", "compute")


@dataclass(frozen=True, slots=True)
class Client:
    """Use of a GPU through one open device file.

    Attributes
    ----------
    identity
        PCI address of the GPU, and the driver's number of the client.
    memory_bytes
        Resident device memory; ``None`` where the driver does not show it.
    engines
        Busy time and elapsed time of each engine that runs kernels, in one unit; elapsed is 0 for nanoseconds.
    """

    identity: tuple[str, str]
    memory_bytes: int | None
    engines: Mapping[str, tuple[int, int]]


class IntelExporter:
    """Exporter of Intel's discrete GPUs and of their use by runs.

    Parameters
    ----------
    options
        `own_runs` limits the runs to those of this home.
    root
        Folder of ``proc`` and ``sys``.
    """

    name = "intel"

    def __init__(self, options: ExporterOptions, root: Path = Path("/")) -> None:
        self._root = root
        self._runs_dir = options.runs_dir if options.own_runs else None
        self._processes = RunProcesses()
        self._before: dict[tuple[str, str], Client] = {}
        self._before_at = 0

    def check(self) -> str | None:
        """Return the reason where no GPU can be read."""
        if any(intel_gpus(self._root)):
            return None
        return "this host has no discrete GPU of Intel with the kernel's driver xe or i915"

    def collect(self) -> Iterable[Metric]:
        """Read every GPU once."""
        gpus = {one.address: one for one in intel_gpus(self._root)}
        measured: list[Measurement] = []
        for one in gpus.values():
            info = {**_labels(one), "name": one.gpu.name, "driver": one.driver}
            measured += [("bench_gpu_info", info, 1), *_card(one)]
        measured += self._runs(gpus, self._processes.scan())
        return Families(GPU_HELPS, measured)

    def _runs(self, gpus: Mapping[str, IntelGpu], trees: Mapping[str, RunTree]) -> Iterator[Measurement]:
        now, seen = time.monotonic_ns(), {}
        for run_id, tree in trees.items():
            if self._runs_dir is not None and not (self._runs_dir / run_id).is_dir():
                continue
            by_process = {member.pid: list(self._clients(member.pid)) for member in tree.members}
            # Processes share a client that they inherit.
            clients = {client.identity: client for found in by_process.values() for client in found}
            seen.update(clients)
            for address, one in gpus.items():
                own = [client for client in clients.values() if client.identity[0] == address]
                if not own:
                    continue
                labels = {**_labels(one), "run_id": run_id}
                users = [found for found in by_process.values() if any(one.identity[0] == address for one in found)]
                known = [client.memory_bytes for client in own if client.memory_bytes is not None]
                yield "bench_gpu_run_processes", labels, len(users)
                yield "bench_gpu_run_memory_bytes", labels, sum(known) if len(known) == len(own) else None
                yield "bench_gpu_run_sm_utilization_ratio", labels, self._utilization(own, now - self._before_at)
        self._before, self._before_at = seen, now

    def _clients(self, pid: int) -> Iterator[Client]:
        folder = self._root / "proc" / str(pid) / "fdinfo"
        for name in list_folder(folder):
            if (client := parse_client(read_file(folder / name))) is not None:
                yield client

    def _utilization(self, clients: Iterable[Client], nanoseconds: int) -> float | None:
        """Return the share of time since the last read in which kernels ran, of the busiest kind of engine."""
        busy: dict[str, float] = {}
        for client in clients:
            before = self._before.get(client.identity)
            for engine, (count, elapsed) in client.engines.items() if before else ():
                count_before, elapsed_before = before.engines.get(engine, (count, elapsed)) if before else (0, 0)
                past = elapsed - elapsed_before if elapsed else nanoseconds
                if past > 0:
                    busy[engine] = busy.get(engine, 0.0) + max(count - count_before, 0) / past
        return min(max(busy.values()), 1.0) if busy else None


def parse_client(text: str) -> Client | None:
    """Return the client in a file of ``/proc/PID/fdinfo``, ``None`` if it is no device of Intel's drivers."""
    fields = {key: value.strip() for key, _, value in (line.partition(":") for line in text.splitlines())}
    if fields.get("drm-driver") not in DRIVERS or "drm-client-id" not in fields:
        return None
    memory = [value for key, value in fields.items() if key.startswith(("drm-resident-vram", "drm-resident-local"))]
    engines = {
        name: (_number(fields[f"drm-cycles-{name}"]), _number(fields.get(f"drm-total-cycles-{name}", "0")))
        for name in _CYCLES
        if f"drm-cycles-{name}" in fields
    }
    engines |= {
        name: (_number(fields[f"drm-engine-{name}"]), 0) for name in _NANOSECONDS if f"drm-engine-{name}" in fields
    }
    identity = (fields.get("drm-pdev", ""), fields["drm-client-id"])
    return Client(identity, sum(map(_number, memory)) if memory else None, engines)


def _number(text: str) -> int:
    """Return a number in bytes, cycles or nanoseconds."""
    number, _, unit = text.partition(" ")
    return int(number) * _UNITS.get(unit.strip(), 1)


def _labels(one: IntelGpu) -> dict[str, str]:
    return {"UUID": one.gpu.uuid, "gpu": str(one.gpu.index)}


def _card(one: IntelGpu) -> Iterator[Measurement]:
    """Yield the values of a whole card: https://docs.kernel.org/admin-guide/abi-testing.html, `xe` and `i915`."""
    labels, device = _labels(one), one.card / "device"
    # `i915` has further folders for the parts of a GPU.
    sensors = next(
        (path for path in sorted(device.glob("hwmon/hwmon*")) if read_file(path / "name") == one.driver), None
    )
    if sensors is not None:
        energy = _value(sensors / "energy1_input", 1e-6)  # of the card, else of the chip alone
        energy = _value(sensors / "energy2_input", 1e-6) if energy is None else energy
        yield "bench_gpu_energy_joules_total", labels, energy
        yield "bench_gpu_power_limit_watts", labels, _value(sensors / "power1_max", 1e-6) or None  # 0 is no limit
        yield "bench_gpu_temperature_celsius", labels, _value(sensors / "temp2_input", 1e-3)
        yield "bench_gpu_memory_temperature_celsius", labels, _value(sensors / "temp3_input", 1e-3)
    clocks = [*device.glob("tile*/gt0/freq0/act_freq"), *one.card.glob("gt/gt0/rps_act_freq_mhz")]
    hertz = [value for path in clocks if (value := _value(path, 1e6)) is not None]
    yield "bench_gpu_clock_hertz", {**labels, "clock": "sm"}, max(hertz, default=None)


def _value(path: Path, scale: float) -> float | None:
    text = read_file(path)
    return int(text) * scale if text.isdecimal() else None
