"""Energy of runs on MIG instances, split by DCGM's activity where the driver has none, as on an A100."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from prometheus_client.core import Metric

from hypergauge.exporters.dcgm.entities import Entity
from hypergauge.exporters.energy.gpu_runs import GpuRuns
from hypergauge.exporters.serving.families import Families
from hypergauge.exporters.serving.registry import ExporterOptions
from hypergauge.gpu.devices import MigInstance
from hypergauge.gpu.library import Nvml
from hypergauge.gpu.sampling.sample import GpuSample, Reader

__all__ = ["InstanceEnergy"]

_PREFIX = "bench_dcgm"
_HELPS: Mapping[str, str] = {
    f"{_PREFIX}_{name}": text
    for name, text in {
        "idle_energy_joules_total": "Idle energy of the whole GPU since the exporter first saw its instances.",
        "other_energy_joules_total": "Energy of processes outside runs since the exporter first saw the instances.",
        "run_start_time_seconds": "Start of the run in Unix seconds; its totals were 0 then.",
        "run_end_time_seconds": "End of the run in Unix seconds; its other samples are final.",
        "attributed_energy_joules_total": "The run's share of the whole GPU's energy, by method of attribution.",
    }.items()
}
# DCGM's fields: power in watts, energy in millijoules, and activities of an instance, the better one first.
_POWER, _ENERGY = 155, 156
_ACTIVITIES = (1002, 1001)


class InstanceEnergy:
    """Split of the energy of GPUs with MIG instances whose activity DCGM alone knows.

    NVML names the processes, and DCGM's latest row the energy and the activities: both are of one moment. The rules are
    those of `EnergySplit`. A GPU is exposed from the first row with the activity of all its instances on. In a later
    interval without it, as while another program holds the counters, the size of the instances counts, so that the
    totals still add up to the counter.

    Parameters
    ----------
    reader
        Factory of a reader of `nvml`, which must not have DCGM's activities.
    """

    def __init__(self, options: ExporterOptions, nvml: Nvml, reader: Callable[[Nvml], Reader]) -> None:
        self._reader = reader(nvml)
        self._runs = GpuRuns(options, _PREFIX)
        self._followed: set[str] = set()
        self._exposed: set[str] = set()

    def update(self, entities: Sequence[Entity]) -> Iterable[Metric]:
        """Add the energy since the previous call, and return the totals."""
        if not self._followed and all(entity.instance is None for entity in entities):
            return ()
        if self._reader.problem() is not None:  # the driver is missing in this container, or does not answer now
            return ()
        sample = self._reader.read()
        self._runs.update(replace(sample, gpus=tuple(self._with_dcgm(sample.gpus, entities))))
        families = Families(_HELPS)
        for name, labels, value in self._runs.measurements() if self._exposed else ():
            if labels.get("UUID") is None or labels["UUID"] in self._exposed:
                families.add(name, labels, value)
        return families

    def close(self) -> None:
        """Close NVML. The next call of `update` opens it again and continues the totals."""
        self._reader.close()

    def _with_dcgm(self, gpus: Iterable[GpuSample], entities: Iterable[Entity]) -> Iterable[GpuSample]:
        """Yield the GPUs to split, with DCGM's power, energy and activities in place of the driver's."""
        found: dict[str, list[Entity]] = {}
        for entity in entities:
            found.setdefault(entity.uuid, []).append(entity)
        for one in gpus:
            uuid, own = one.gpu.uuid, found.get(one.gpu.uuid, [])
            metrics = _metrics(own)
            # Without instances, such a GPU is followed for its idle power and the first seconds of its next run.
            if uuid not in self._followed and (one.activity or not one.gpu.mig_enabled or "energy" not in metrics):
                continue
            self._followed.add(uuid)
            activities = _activities(one, own)
            if activities:
                self._exposed.add(uuid)
            devices = tuple(
                replace(device, metrics={"sm_active": activities[device.instance]})
                if device.instance in activities
                else device
                for device in one.devices
            )
            rest = {name: value for name, value in one.metrics.items() if name not in ("power", "energy")}
            yield replace(one, metrics=rest | metrics, devices=devices)


def _metrics(entities: Iterable[Entity]) -> dict[str, float]:
    """Return power and energy of the whole GPU in SI units, where DCGM has them."""
    found = {}
    for entity in entities:
        for name, field, factor in (("power", _POWER, 1.0), ("energy", _ENERGY, 1e-3)):
            value = entity.values.get(field)
            if isinstance(value, int | float):
                found[name] = value * factor
    return found


def _activities(one: GpuSample, entities: Iterable[Entity]) -> dict[MigInstance | None, float]:
    """Return by instance the activity by one field; none unless all instances of the GPU have it."""
    own = {entity.instance: entity for entity in entities}
    instances = [device.instance for device in one.devices if device.instance is not None]
    for field in _ACTIVITIES:
        found: dict[MigInstance | None, float] = {}
        for instance in instances:
            entity = own.get(instance.gpu_instance_id)
            value = entity.values.get(field) if entity else None
            if isinstance(value, int | float):
                found[instance] = value
        if instances and len(found) == len(instances):
            return found
    return {}
