"""The exporter ``amd``: AMD GPUs through ROCm's library `amdsmi`, with the names of ``nvml``.

A quantity has one name for GPUs of every vendor. AMD's device-metrics-exporter uses other names without units, and
changes them between versions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from prometheus_client.core import Metric

from hypergauge.core.system.processes import RunProcesses, RunTree
from hypergauge.exporters.serving.families import Families, Measurement
from hypergauge.exporters.serving.gpu_helps import GPU_HELPS
from hypergauge.exporters.serving.registry import ExporterOptions
from hypergauge.gpu import amd

__all__ = ["AmdExporter"]

_MIB = 2**20
# The library's sentinels for a metric that a GPU lacks: the highest number of the field's width.
_SENTINELS = {2**16 - 1, 2**32 - 1, 2**64 - 1}
_SEVERITIES = {"corrected": "correctable_count", "uncorrected": "uncorrectable_count"}


class AmdExporter:
    """Exporter of AMD GPUs and of the memory that runs use on them.

    Parameters
    ----------
    options
        `own_runs` limits the runs to those of this home.
    amdsmi
        Replacement for the installed library.
    """

    name = "amd"

    def __init__(self, options: ExporterOptions, amdsmi: Any = None) -> None:
        self._smi = amdsmi
        self._runs_dir = options.runs_dir if options.own_runs else None
        self._processes = RunProcesses()
        self._opened = False
        self._gpus: list[tuple[Any, dict[str, str], dict[str, str]]] = []

    def check(self) -> str | None:
        """Return the reason why no GPU can be read: no library, no driver, no GPU."""
        try:
            self._open()
            found = bool(self._gpus)
            self.close()
        except Exception as error:  # noqa: BLE001 - its import can raise anything, and its errors are known only afterwards
            return amd.driver_problem(error)
        return None if found else "this host has no AMD GPU"

    def collect(self) -> Iterable[Metric]:
        """Read every GPU once. A lost GPU affects no other.

        Raises
        ------
        RuntimeError
            No GPU answers. The next call opens the library again.
        """
        self._open()
        trees = self._processes.scan()
        measured: list[Measurement] = []
        for gpu, labels, _ in self._gpus:
            for name, more, value in (*self._metrics(gpu), *self._runs(gpu, trees)):
                measured.append((f"bench_gpu_{name}", {**labels, **more}, value))
        if all(value is None for _, _, value in measured):
            self.close()
            raise RuntimeError("no AMD GPU answers")
        measured += [("bench_gpu_info", {**labels, **info}, 1) for _, labels, info in self._gpus]
        return Families(GPU_HELPS, measured)

    def close(self) -> None:
        """Close the library; the next call of `collect` opens it again."""
        if self._opened:
            self._opened, self._gpus = False, []
            self._query("shut_down")

    def _open(self) -> None:
        if self._opened:
            return
        self._smi = self._smi or amd.load_amdsmi()
        self._smi.amdsmi_init()
        self._opened = True
        for one in amd.opened_gpus(self._smi):
            labels = {"UUID": one.gpu.uuid, "gpu": str(one.gpu.index)}
            self._gpus.append((one.handle, labels, {"name": one.gpu.name, "driver": one.driver}))

    def _query(self, function: str, *arguments: Any) -> Any:
        return amd.query(self._smi, function, *arguments)

    def _metrics(self, gpu: Any) -> Iterator[Measurement]:
        activity = self._query("get_gpu_activity", gpu) or {}
        yield "utilization_ratio", {}, _scaled(activity.get("gfx_activity"), over=100)
        yield "memory_utilization_ratio", {}, _scaled(activity.get("umc_activity"), over=100)
        memory = self._query("get_gpu_vram_usage", gpu) or {}
        used, total = _scaled(memory.get("vram_used"), _MIB), _scaled(memory.get("vram_total"), _MIB)
        yield "memory_used_bytes", {}, used
        yield "memory_free_bytes", {}, None if used is None or total is None else total - used
        yield "memory_total_bytes", {}, total
        power = self._query("get_power_info", gpu) or {}
        # Keys: of the MI300, of earlier models, and of newer libraries for both.
        watts = (_scaled(power.get(f"{kind}socket_power")) for kind in ("current_", "average_", ""))
        yield "power_watts", {}, next((value for value in watts if value is not None), None)
        cap = self._query("get_power_cap_info", gpu) or {}
        yield "power_limit_watts", {}, _scaled(cap.get("power_cap"), over=1_000_000)
        energy = self._query("get_energy_count", gpu) or {}
        # The counter of an MI250X's second die stays 0; that of the first is the whole GPU's.
        ticks = _scaled(energy.get("energy_accumulator", energy.get("power"))) or None
        yield "energy_joules_total", {}, _scaled(ticks, energy.get("counter_resolution", 0), over=1_000_000)
        hottest, edge = self._celsius(gpu, "HOTSPOT"), self._celsius(gpu, "EDGE")
        yield "temperature_celsius", {}, edge if hottest is None else hottest
        yield "memory_temperature_celsius", {}, self._celsius(gpu, "VRAM")
        for clock, kind in (("sm", "GFX"), ("memory", "MEM")):
            megahertz = self._query("get_clock_info", gpu, getattr(self._smi.AmdSmiClkType, kind)) or {}
            yield "clock_hertz", {"clock": clock}, _scaled(megahertz.get("clk", megahertz.get("cur_clk")), 1e6)
        errors = self._query("get_gpu_total_ecc_count", gpu) or {}
        for severity, count in _SEVERITIES.items():
            yield "ecc_errors_total", {"severity": severity}, _scaled(errors.get(count))

    def _celsius(self, gpu: Any, sensor: str) -> float | None:
        kind, metric = getattr(self._smi.AmdSmiTemperatureType, sensor), self._smi.AmdSmiTemperatureMetric.CURRENT
        value = _scaled(self._query("get_temp_metric", gpu, kind, metric))
        # Older libraries report thousandths.
        return value / 1000 if value is not None and value > 1000 else value

    def _runs(self, gpu: Any, trees: dict[str, RunTree]) -> Iterator[Measurement]:
        memory = {
            int(process["pid"]): _scaled((process.get("memory_usage") or {}).get("vram_mem"))
            for process in self._query("get_gpu_process_list", gpu) or []
        }
        for run_id, tree in trees.items():
            shares = [memory[member.pid] for member in tree.members if member.pid in memory]
            if shares and (self._runs_dir is None or (self._runs_dir / run_id).is_dir()):
                known = [share for share in shares if share is not None]
                yield "run_memory_bytes", {"run_id": run_id}, sum(known) if len(known) == len(shares) else None
                yield "run_processes", {"run_id": run_id}, len(shares)


def _scaled(value: Any, times: float = 1, over: float = 1) -> float | None:
    """Return a value in its SI unit, ``None`` where the library has none."""
    if not isinstance(value, int | float) or value in _SENTINELS:
        return None  # "N/A", mostly
    return value * times / over
