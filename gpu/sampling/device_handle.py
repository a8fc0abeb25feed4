"""Handle of a GPU, with its state between samples."""

from __future__ import annotations

import dataclasses
import re

from hypergauge.gpu.devices import Gpu, MigInstance
from hypergauge.gpu.inventory import list_gpu, list_instances
from hypergauge.gpu.library import Nvml, as_text
from hypergauge.gpu.queries import Queries
from hypergauge.gpu.sampling.buffers import Buffers
from hypergauge.gpu.sampling.fields import Fields
from hypergauge.gpu.sampling.gpm import Activity, has_gpm
from hypergauge.gpu.sampling.metrics import device_metrics, memory, throttle, utilization
from hypergauge.gpu.sampling.processes import Processes
from hypergauge.gpu.sampling.sample import DeviceSample, GpuSample
from hypergauge.gpu.sampling.xids import Xids

__all__ = ["DeviceHandle"]

_Instances = list[tuple[MigInstance, object]]


class DeviceHandle:
    """Open handle of one GPU.

    Parameters
    ----------
    nvml
        Initialized.
    index, handle
        The GPU's index and handle in NVML.
    xids
        Its XID errors so far.

    Raises
    ------
    NVMLError
        The GPU does not answer.
    """

    def __init__(self, nvml: Nvml, index: int, handle: object, xids: Xids) -> None:
        self._nvml, self._handle = nvml, handle
        self.gpu: Gpu = list_gpu(nvml, index, handle)
        self._activities: dict[str | None, Activity] = {}
        self._xids = xids
        self._start()
        pci = self._gpu.query("nvmlDeviceGetPciInfo")
        self._pci_bus_id = "" if pci is None else as_text(pci.busId)
        minor = self._gpu.query("nvmlDeviceGetMinorNumber")
        self._minor = index if minor is None else int(minor)  # without device files
        self._xids.open(self._gpu)

    def read(self, time: float, now: float) -> GpuSample:
        """Return a sample; `time` is in Unix seconds, and `now` in seconds by any clock.

        Raises
        ------
        NVMLError
            The GPU does not answer.
        """
        self._xids.read()
        mode = self._gpu.query("nvmlDeviceGetMigMode")
        mig_enabled = self.gpu.mig_enabled if mode is None else mode[0] == self._nvml.NVML_DEVICE_MIG_ENABLE
        if mig_enabled != self.gpu.mig_enabled:
            self.gpu = dataclasses.replace(self.gpu, mig_enabled=mig_enabled)
            self._start()
        metrics = device_metrics(self._gpu) | self._power.read(time)
        temperature, traffic = self._fields.read(now)
        if temperature is not None:
            metrics["memory_temperature"] = temperature
        instances = self._instances() if mig_enabled else []
        self._keep_activities({instance.uuid for instance, _ in instances} if mig_enabled else {None})
        devices = self._read_instances(instances, now) if mig_enabled else (self._read_whole(traffic, time, now),)
        mig = tuple(device.instance for device in devices if device.instance)
        if mig != self.gpu.mig:
            self.gpu = dataclasses.replace(self.gpu, mig=mig)
        return GpuSample(
            self.gpu,
            self._minor,
            self._pci_bus_id,
            metrics,
            devices,
            self._processes.read(instances if mig_enabled else None),
            throttle(self._gpu),
            dict(self._xids.counts),
            self._xids.last,
            "gpm" if self._gpm else None,
        )

    def close(self) -> None:
        """Free NVML's resources; the XID errors stay."""
        self._xids.close()
        self._keep_activities(set())

    def _start(self) -> None:
        """Reset the known features of the GPU, which differ with and without MIG mode."""
        self._keep_activities(set())
        self._gpu = Queries(self._nvml, self._handle)
        self._power = Buffers(self._gpu, "power_peak")
        self._utilization = Buffers(self._gpu, "utilization", "memory_utilization")
        self._processes = Processes(self._gpu)
        self._gpm = has_gpm(self._gpu)
        self._fields = Fields(self._gpu, traffic=not self._gpm and not self.gpu.mig_enabled)

    def _instances(self) -> _Instances:
        """Return the GPU instances, each with the handle of its first compute instance."""
        try:
            listed = list(list_instances(self._nvml, self._handle))
        except self._nvml.NVMLError as error:  # MIG mode has just ended
            self._gpu.lacks(error)
            return []
        found: dict[int, tuple[MigInstance, object]] = {}
        for device, handle in listed:
            # "1c.3g.20gb" is part of the instance "3g.20gb", and shares its memory and counters.
            profile = re.sub(r"^\d+c\.", "", device.profile)
            found.setdefault(device.gpu_instance_id, (dataclasses.replace(device, profile=profile), handle))
        return [found[instance_id] for instance_id in sorted(found)]

    def _read_whole(self, traffic: dict[str, float], time: float, now: float) -> DeviceSample:
        # Without a buffer, the driver's newest utilization.
        used = utilization(self._gpu) | self._utilization.read(time)
        return DeviceSample(None, used | memory(self._gpu) | traffic | self._activity(None, None, now))

    def _read_instances(self, instances: _Instances, now: float) -> tuple[DeviceSample, ...]:
        devices = []
        for instance, handle in instances:
            metrics = memory(self._gpu, of=handle)
            # Without memory, it was removed after the listing, unless the driver reports none.
            if metrics or not self._gpu.supports("nvmlDeviceGetMemoryInfo", of=handle):
                activity = self._activity(instance.uuid, instance.gpu_instance_id, now)
                devices.append(DeviceSample(instance, metrics | activity))
        return tuple(devices)

    def _activity(self, uuid: str | None, gpu_instance_id: int | None, now: float) -> dict[str, float]:
        if not self._gpm:
            return {}
        activity = self._activities.setdefault(uuid, Activity(self._gpu, gpu_instance_id))
        metrics = activity.read(now)
        if activity.denied:
            self._gpm = False
            self._fields = Fields(self._gpu, traffic=not self.gpu.mig_enabled)
        return metrics

    def _keep_activities(self, uuids: set[str | None]) -> None:
        # A new instance may reuse the id of an old one, never its UUID.
        for uuid in self._activities.keys() - uuids:
            self._activities.pop(uuid).close()
