"""Metrics of the energy of GPUs and their runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hypergauge.core.files.run_folder import RunEnd
from hypergauge.core.system.processes import RunProcesses
from hypergauge.exporters.energy.gpu_split import EnergySplit
from hypergauge.exporters.process.run_exits import RunExits
from hypergauge.exporters.serving.families import Measurement
from hypergauge.exporters.serving.registry import ExporterOptions
from hypergauge.gpu.devices import Gpu, MigInstance
from hypergauge.gpu.sampling.sample import Sample

__all__ = ["GpuRuns", "gpu_labels", "instance_labels", "simulated_label"]


class GpuRuns:
    """Runs on GPUs, and the split of the GPUs' energy among them, as metrics.

    A run's energy is exposed while the run is live, also without processes on a GPU. After the end the final totals are
    exposed for a minute, for the collector to date to the run's last millisecond. The energy between the last sample and
    the end belongs to the run.

    Parameters
    ----------
    prefix
        Prefix of the metrics.
    """

    def __init__(self, options: ExporterOptions, prefix: str) -> None:
        self._prefix = prefix
        self._processes = RunProcesses()
        self._run_exits = RunExits(options.runs_dir, options.own_runs)
        self._energy = EnergySplit()
        self._runs: dict[int, str] = {}  # by pid, at the last scan
        self._seen: dict[str, float] = {}  # time of a run's last process, Unix seconds
        self._gpus: dict[str, Gpu] = {}
        self._answered: set[str] = set()
        self._live: set[str] = set()
        self._ended: Mapping[str, RunEnd] = {}

    def update(self, sample: Sample) -> dict[int, str]:
        """Add the energy since the previous sample, and return the live runs by pid."""
        trees = self._processes.scan()
        self._run_exits.update(sample.time)
        runs = {
            process.pid: run_id
            for run_id, tree in trees.items()
            if self._run_exits.exposes(run_id)
            for process in tree.members
        }
        live = {run_id for run_id in runs.values() if any(not process.zombie for process in trees[run_id].members)}
        # A run that ended during this read stays live until the next one, which has its totals.
        self._ended = {run_id: end for run_id, end in self._run_exits.recent.items() if end.ended_at <= sample.time}
        self._live = live - self._ended.keys()
        self._answered = {one.gpu.uuid for one in sample.gpus}
        self._gpus |= {one.gpu.uuid: one.gpu for one in sample.gpus}
        self._split(sample, runs)
        return {pid: run_id for pid, run_id in runs.items() if run_id in self._live}

    def measurements(self) -> Iterator[Measurement]:
        """Yield the starts and ends of runs, and the totals of energy."""
        yield from self._bounds()
        for uuid, energy in self._energy.totals.items():
            gpu = gpu_labels(energy.gpu)
            if uuid in self._answered:
                yield f"{self._prefix}_idle_energy_joules_total", gpu, energy.idle
                yield f"{self._prefix}_other_energy_joules_total", gpu, energy.other
            for share, joules in energy.runs.items():
                run = {"run_id": share.run_id, "method": share.method}
                labels = {**gpu, **instance_labels(share.instance), **run}
                if share.run_id in self._ended or (share.run_id in self._live and uuid in self._answered):
                    yield f"{self._prefix}_attributed_energy_joules_total", labels, joules

    def _split(self, sample: Sample, runs: dict[int, str]) -> None:
        # A process may have ended between the sample and the scan.
        known, self._runs = self._runs | runs, runs
        self._energy.update(sample, known, {run_id: end.ended_at for run_id, end in self._ended.items()})
        self._seen.update(dict.fromkeys(runs.values(), sample.time))
        self._seen = {
            run_id: seen_at
            for run_id, seen_at in self._seen.items()
            if self._run_exits.keeps(run_id, seen_at, sample.time)
        }
        self._energy.forget(self._seen.__contains__)

    def _bounds(self) -> Iterator[Measurement]:
        # Also for a run without processes on a GPU yet: its energy then starts at 0.
        simulated = simulated_label(any(gpu.simulated for gpu in self._gpus.values()))
        for run_id in sorted(self._live):
            end = self._run_exits.recent.get(run_id)
            started_at = self._run_exits.started_at(run_id) if end is None else end.started_at
            yield f"{self._prefix}_run_start_time_seconds", {"run_id": run_id, **simulated}, started_at
        shared = {share.run_id for energy in self._energy.totals.values() for share in energy.runs}
        for run_id in sorted(shared & self._ended.keys()):
            end, labels = self._ended[run_id], {"run_id": run_id, **simulated}
            yield f"{self._prefix}_run_start_time_seconds", labels, end.started_at
            yield f"{self._prefix}_run_end_time_seconds", labels, end.ended_at


def gpu_labels(gpu: Gpu) -> dict[str, str]:
    """Return the labels of a GPU."""
    return {"UUID": gpu.uuid, "gpu": str(gpu.index), **simulated_label(gpu.simulated)}


def instance_labels(instance: MigInstance | None) -> dict[str, str]:
    """Return the labels of a MIG instance beyond its GPU's; none for a whole GPU."""
    if instance is None:
        return {}
    return {"GPU_I_ID": str(instance.gpu_instance_id), "GPU_I_PROFILE": instance.profile}


def simulated_label(simulated: bool) -> dict[str, str]:
    """Return the label of simulated GPUs; none for real ones."""
    return {"simulated": "true"} if simulated else {}
