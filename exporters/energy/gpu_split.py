"""Energy of each GPU, split among its runs, idle time, and processes outside runs."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from hypergauge.exporters.energy.idle_power import IdlePower
from hypergauge.gpu.devices import Gpu, MigInstance
from hypergauge.gpu.sampling.sample import GpuSample, Sample

__all__ = ["EnergySplit", "GpuEnergy", "Share", "instances_of"]

# Without an energy counter, a power value covers at most this time: longer gaps are unknown.
_LONGEST_SECONDS = 60.0
_SLICES = re.compile(r"([0-9]+)g\.")


class Share(NamedTuple):
    """Key of an amount of energy: its owner, the MIG instance, and the method of attribution."""

    run_id: str
    instance: MigInstance | None
    method: str


@dataclass(slots=True)
class GpuEnergy:
    """Totals of one GPU in joules since it was first seen. None of them ever falls.

    Attributes
    ----------
    gpu
        The GPU as it was last seen.
    idle
        Idle power times the time, and all energy while the GPU had no processes.
    other
        The share of processes outside runs.
    runs
        The shares of runs. Successive instances of one id and profile are one.
    """

    gpu: Gpu
    idle: float = 0.0
    other: float = 0.0
    runs: dict[Share, float] = field(default_factory=dict)


class _Occupant(NamedTuple):
    """Process on a GPU; `client` marks one of several MPS clients, whose `sm_time` is an equal share of theirs."""

    run_id: str | None
    instance: MigInstance | None
    sm_time: float | None
    client: bool = False


class EnergySplit:
    """Split of each GPU's energy, from sample to sample.

    The energy since the previous sample is the increase of the GPU's counter, or without a counter its power times the
    time. The lowest sustained power is idle power, see `IdlePower`. The rest is split among the processes on the GPU
    now or at the previous sample, by the first of these methods whose input is known:

    ========================= =========================================================================================
    ``sm_time``               without MIG: share of time in which the process's kernels ran
    ``instance_activity``     with MIG: activity of each instance's multiprocessors, times its compute slices
    ``instance_size``         with MIG: compute slices of the instances with processes
    ``process_count``         equal parts for all processes
    ========================= =========================================================================================

    The driver reports the utilization of all clients of an MPS server together. Several clients have equal shares of their
    part, by the method ``mps_clients``; without a known part, all processes have equal parts. The last known values of ended
    processes count. An instance's part is divided among its processes. Without processes, all energy is idle. In each
    interval the parts add up to the GPU's energy.

    A GPU of an unknown model that was never seen without processes has no idle power: the lowest is that of a load, and
    runs' parts are too small. Their methods then end in ``_no_idle``.
    """

    def __init__(self) -> None:
        self._gpus: dict[str, _MeasuredGpu] = {}

    @property
    def totals(self) -> Mapping[str, GpuEnergy]:
        """Totals by the GPU's UUID, of all GPUs with energy or power."""
        return {uuid: gpu.energy for uuid, gpu in self._gpus.items()}

    def update(self, sample: Sample, runs: Mapping[int, str], ended: Mapping[str, float] | None = None) -> None:
        """Add the energy since the previous sample.

        Parameters
        ----------
        runs
            Run ids by pid.
        ended
            Ends of runs in Unix seconds. Energy of later intervals is not theirs.
        """
        for one in sample.gpus:
            gpu = self._gpus.get(one.gpu.uuid)
            if gpu is None:
                if one.metrics.keys() & {"energy", "power"}:
                    self._gpus[one.gpu.uuid] = _MeasuredGpu(one, sample.time, runs)
            else:
                gpu.update(one, sample.time, runs, ended or {})

    def forget(self, is_kept: Callable[[str], bool]) -> None:
        """Drop the totals of runs that are no longer needed."""
        for gpu in self._gpus.values():
            shares = gpu.energy.runs
            gpu.energy.runs = {share: joules for share, joules in shares.items() if is_kept(share.run_id)}


class _MeasuredGpu:
    """One GPU as of its last sample."""

    def __init__(self, sample: GpuSample, time: float, runs: Mapping[int, str]) -> None:
        self.energy = GpuEnergy(sample.gpu)
        model = sample.gpu.model
        # Idle power of the data sheet, until the GPU was seen without processes.
        self._assumed_watts = model.idle_watts if model else math.inf
        occupants = _occupants(sample, runs)
        first = sample.metrics.get("power") or math.inf
        if model and first < model.idle_watts / 2:  # an error of the sensor
            first = math.inf
        self._idle_power = IdlePower(first, free=not occupants)
        # Idle energy that the counter has not shown yet: on a busy host it is read some time before or after the clock.
        self._idle_due = 0.0
        self._keep(sample, time, occupants)

    def update(self, sample: GpuSample, time: float, runs: Mapping[int, str], ended: Mapping[str, float]) -> None:
        joules = self._joules(sample, time)
        if joules is None:  # the next sample with a value covers this interval too
            return
        now = _occupants(sample, runs)
        if joules < 0:  # the counter starts at 0 when the driver is loaded again
            self._idle_due = 0.0
            self._keep(sample, time, now)
            return
        over = {run_id for run_id, ended_at in ended.items() if ended_at <= self._time}
        occupants = [
            one._replace(run_id=None) if one.run_id in over else one for one in (self._occupants | now).values()
        ]
        idle = self._idle(sample, joules, time, free=not occupants)
        self.energy.idle += idle
        for share, part in self._parts(sample, occupants):
            if share is None:
                self.energy.other += (joules - idle) * part
            else:
                self.energy.runs[share] = self.energy.runs.get(share, 0.0) + (joules - idle) * part
        self._keep(sample, time, now)

    def _keep(self, sample: GpuSample, time: float, occupants: dict[int, _Occupant]) -> None:
        self.energy.gpu = sample.gpu
        self._time, self._counter = time, sample.metrics.get("energy")
        self._occupants = occupants
        self._activities = _activities(sample)

    def _joules(self, sample: GpuSample, time: float) -> float | None:
        counter, power = sample.metrics.get("energy"), sample.metrics.get("power")
        if self._counter is not None:
            return None if counter is None else counter - self._counter
        return None if power is None else power * min(max(time - self._time, 0.0), _LONGEST_SECONDS)

    def _idle(self, sample: GpuSample, joules: float, time: float, *, free: bool) -> float:
        seconds = max(time - self._time, 0.0)
        counted = joules / seconds if seconds and self._counter is not None else None
        self._idle_power.add(counted, seconds, free=free, read=sample.metrics.get("power"))
        if free:
            self._assumed_watts, self._idle_due = math.inf, 0.0
            return joules
        watts = min(self._idle_power.watts, self._assumed_watts)
        if watts == math.inf:
            return joules
        self._idle_due += watts * seconds
        idle = min(joules, self._idle_due)
        self._idle_due -= idle
        return idle

    @property
    def _suffix(self) -> str:
        return "_no_idle" if self._assumed_watts == math.inf and not self._idle_power.seen_free else ""

    def _parts(self, sample: GpuSample, occupants: list[_Occupant]) -> Iterable[tuple[Share | None, float]]:
        """Return each part with its owner, ``None`` for processes outside runs. The parts sum up to 1."""
        method, weights = self._weights(sample, occupants)
        whole = math.fsum(weight for _, weight in weights)
        for one, weight in weights:
            share = None
            if one.run_id is not None:
                own = "mps_clients" if one.client and method == "sm_time" else method
                share = Share(one.run_id, _without_uuid(one.instance), own + self._suffix)
            yield share, weight / whole if whole else 1 / len(weights)  # activities may be too small to divide

    def _weights(self, sample: GpuSample, occupants: list[_Occupant]) -> tuple[str, list[tuple[_Occupant, float]]]:
        if sample.gpu.mig_enabled:
            instances = {one.instance for one in occupants}
            if None not in instances:
                return self._by_instance(sample, occupants)
        elif any(one.sm_time for one in occupants) and not any(one.client and one.sm_time is None for one in occupants):
            return "sm_time", [(one, one.sm_time or 0.0) for one in occupants]
        return "process_count", [(one, 1.0) for one in occupants]

    def _by_instance(self, sample: GpuSample, occupants: list[_Occupant]) -> tuple[str, list[tuple[_Occupant, float]]]:
        residents: dict[MigInstance, list[_Occupant]] = {}
        for one in occupants:
            if one.instance is not None:
                residents.setdefault(one.instance, []).append(one)
        last = {instance: activity for instance, activity in self._activities.items() if instance in residents}
        activities = last | _activities(sample)
        method, weights = "instance_size", {instance: _slices(instance) for instance in residents}
        busy = {instance: activity * _slices(instance) for instance, activity in activities.items()}
        if residents.keys() <= busy.keys() and any(busy.values()):
            # An active instance without visible processes has hidden ones, outside runs.
            method, weights = "instance_activity", busy
        unseen = [_Occupant(None, None, None)]
        return method, [
            (one, weight / len(there))
            for instance, weight in weights.items()
            for there in [residents.get(instance, unseen)]
            for one in there
        ]


def _occupants(sample: GpuSample, runs: Mapping[int, str]) -> dict[int, _Occupant]:
    instances = instances_of(sample)
    clients = sum(process.mps for process in sample.processes)
    occupants = {}
    for process in sample.processes:
        sm_time, client = process.sm_utilization, process.mps and process.sm_utilization is None
        if client and process.mps_utilization is not None:
            sm_time = process.mps_utilization / clients
        run_id, instance = runs.get(process.pid), instances.get(process.gpu_instance_id)
        occupants[process.pid] = _Occupant(run_id, instance, sm_time, client)
    return occupants


def instances_of(sample: GpuSample) -> Mapping[int | None, MigInstance]:
    """Return the MIG instances of a GPU by their ids, as its processes name them."""
    return {device.instance.gpu_instance_id: device.instance for device in sample.devices if device.instance}


def _activities(sample: GpuSample) -> dict[MigInstance, float]:
    """Return the activity of each MIG instance's multiprocessors, 0 to 1, where known."""
    return {
        device.instance: activity
        for device in sample.devices
        if device.instance is not None
        and (activity := device.metrics.get("sm_active", device.metrics.get("graphics_active"))) is not None
    }


def _slices(instance: MigInstance) -> float:
    found = _SLICES.search(instance.profile)
    return float(found[1]) if found else 1.0


def _without_uuid(instance: MigInstance | None) -> MigInstance | None:
    """Return the instance without its UUID, so that its successors are equal."""
    return None if instance is None else MigInstance(instance.gpu_instance_id, "", instance.profile)
