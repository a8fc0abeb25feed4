"""Sample of a host's GPUs at one time. It leaves out unsupported metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from hypergauge.gpu.devices import Gpu, MigInstance

__all__ = ["DeviceSample", "GpuProcess", "GpuSample", "Reader", "Sample"]


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """Process with a context on a GPU.

    Attributes
    ----------
    memory_bytes
        Its device memory; ``None`` where the driver does not report it.
    sm_utilization
        Share of time since the last sample in which its kernels ran, 0 to 1; ``None`` where unknown: under MIG, and for
        one of several clients of an MPS server.
    gpu_instance_id
        Its MIG instance.
    mps
        Whether it is a client of an MPS server.
    mps_utilization
        The same share of all clients of its server together, which is what the driver reports of them.
    """

    pid: int
    memory_bytes: int | None = None
    sm_utilization: float | None = None
    gpu_instance_id: int | None = None
    mps: bool = False
    mps_utilization: float | None = None


@dataclass(frozen=True, slots=True)
class DeviceSample:
    """Metrics of a compute device: a GPU without MIG mode, or one MIG instance.

    Attributes
    ----------
    instance
        The MIG instance; ``None`` for a whole GPU.
    metrics
        By name, in SI units: ratios 0 to 1 ``utilization``, ``memory_utilization`` (see
        `hypergauge.gpu.sampling.buffers.Buffers`), ``encoder_utilization``, ``decoder_utilization``; bytes
        ``memory_used``, ``memory_free``, ``memory_reserved``, ``memory_total``; by GPM, over the time since the last
        sample, ratios ``graphics_active``, ``sm_active``, ``sm_occupancy``, ``tensor_active``, ``memory_active``,
        ``fp64_active``, ``fp32_active``, ``fp16_active``, and bytes/s ``pcie_transmit``, ``pcie_receive``,
        ``nvlink_transmit``, ``nvlink_receive``.
    """

    instance: MigInstance | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GpuSample:
    """Metrics of one GPU: the whole GPU, and its MIG instances.

    Attributes
    ----------
    minor
        Number of its device file, ``/dev/nvidia0``.
    metrics
        By name, in SI units: ``power``, ``power_peak`` (since the last sample), ``power_limit`` (watts), ``energy``
        (joules since the driver was loaded), ``temperature``, ``memory_temperature`` (Celsius), ``sm_clock``,
        ``memory_clock``, ``graphics_clock``, ``video_clock`` (hertz), ``fan_speed`` (ratio), ``performance_state``;
        counts since the driver was loaded ``pcie_replays``, ``ecc_corrected``, ``ecc_uncorrected``,
        ``remapped_corrected``, ``remapped_uncorrected``, and ``remap_failure`` (0 or 1).
    devices
        The whole GPU, or in MIG mode its instances.
    processes
        Processes with a context on it, each once; without MPS servers, which only compute for their clients.
    throttle
        By reason, whether it limits the clocks now; ``None`` where the driver does not report it.
    xids
        Counts of XID errors by number since the reader was opened; `last_xid` is the last one, 0 for none.
    activity
        Source of ``sm_active`` and the like: ``gpm``, ``dcgm`` or ``None``.
    """

    gpu: Gpu
    minor: int
    pci_bus_id: str
    metrics: Mapping[str, float] = field(default_factory=dict)
    devices: tuple[DeviceSample, ...] = ()
    processes: tuple[GpuProcess, ...] = ()
    throttle: Mapping[str, bool] | None = None
    xids: Mapping[int, int] = field(default_factory=dict)
    last_xid: int | None = None
    activity: str | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """All GPUs at one time.

    Attributes
    ----------
    time
        Unix seconds.
    driver
        Version of the NVIDIA driver.
    gpus
        GPUs that answered, by index.
    lost
        By UUID, the reason why a known GPU did not answer.
    """

    time: float
    driver: str
    gpus: tuple[GpuSample, ...] = ()
    lost: Mapping[str, str] = field(default_factory=dict)


class Reader(Protocol):
    """Reader of GPUs, such as `hypergauge.gpu.sampling.reader.GpuReader`."""

    def problem(self) -> str | None:
        """Return the reason why it cannot work here, ``None`` where it can."""

    def read(self) -> Sample:
        """Read everything once."""

    def close(self) -> None:
        """Close the source; the next read opens it again."""
