"""Reader of all GPUs of this host. A lost GPU affects no other."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

from hypergauge.gpu.library import Nvml, as_text
from hypergauge.gpu.queries import is_driver_lost
from hypergauge.gpu.sampling.device_handle import DeviceHandle
from hypergauge.gpu.sampling.sample import Sample
from hypergauge.gpu.sampling.xids import Xids

__all__ = ["GpuReader"]

# NVML lists some recovered GPUs only after it was initialized again, which may take a second where no other program keeps
# the driver loaded.
_REOPEN_SECONDS = 60.0


class GpuReader:
    """Reader of all GPUs.

    It looks for a lost GPU at each read, and opens NVML again after a restart of the driver. MIG instances may appear and
    disappear, also during a read. Use it from one thread at a time.

    Parameters
    ----------
    nvml
        Result of `hypergauge.gpu.load`, not initialized. The reader does so at its first use.
    clock
        Clock in seconds, for the time between reads.
    """

    def __init__(self, nvml: Nvml, clock: Callable[[], float] = time.monotonic) -> None:
        self._nvml, self._clock = nvml, clock
        self._driver: str | None = None
        self._opened_at = 0.0
        self._gpus: dict[str, DeviceHandle] = {}
        self._all_open = False
        self._lost: dict[str, str] = {}
        self._xids: dict[str, Xids] = {}

    def problem(self) -> str | None:
        """Return the reason why no GPU can be read, ``None`` where one can."""
        try:
            self._open()
        except self._nvml.NVMLError as error:
            return str(error)
        return None if self._gpus or not self._all_open else "this host has no NVIDIA GPU"

    def read(self) -> Sample:
        """Read everything once.

        Raises
        ------
        NVMLError
            The driver is not loaded. The next call tries again.
        """
        if self._lost and self._clock() - self._opened_at > _REOPEN_SECONDS:
            self.close()
        try:
            driver = self._open()
            were_open = bool(self._gpus)
            sample = self._read(driver)
            if were_open and not self._gpus:
                # All at once: the driver was replaced and no longer knows this session.
                self.close()
                sample = self._read(self._open())
            return sample
        except self._nvml.NVMLError:
            self.close()
            raise

    def close(self) -> None:
        """Close NVML; the next read opens it again. A second call has no effect."""
        for gpu in self._gpus.values():
            gpu.close()
        self._gpus = {}
        if self._driver is not None:
            self._driver = None
            with contextlib.suppress(self._nvml.NVMLError):  # the driver is unloaded
                self._nvml.nvmlShutdown()

    def _open(self) -> str:
        """Initialize NVML if needed, open all GPUs, and return the driver's version."""
        if self._driver is None:
            self._nvml.nvmlInit()
            self._driver = ""
            try:
                try:
                    self._driver = as_text(self._nvml.nvmlSystemGetDriverVersion())
                except self._nvml.NVMLError as error:  # the GPUs may be readable without it
                    if is_driver_lost(error):
                        raise
                self._find()
            except self._nvml.NVMLError:
                self.close()
                raise
            self._opened_at = self._clock()
        return self._driver

    def _find(self) -> None:
        """Open the GPUs that are not open."""
        self._all_open = True
        for index in range(self._nvml.nvmlDeviceGetCount()):
            uuid = None
            try:
                handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
                uuid = self._nvml.nvmlDeviceGetUUID(handle)
                if uuid not in self._gpus:
                    xids = self._xids.setdefault(uuid, Xids())
                    self._gpus[uuid] = DeviceHandle(self._nvml, index, handle, xids)
            except self._nvml.NVMLError as error:
                if is_driver_lost(error):
                    raise
                self._all_open = False
                if uuid is not None:
                    self._lost.setdefault(uuid, str(error))
        for uuid in self._xids.keys() - self._gpus.keys():
            self._lost.setdefault(uuid, "it was not found")

    def _read(self, driver: str) -> Sample:
        at, now = time.time(), self._clock()
        if self._lost or not self._all_open:
            self._find()
        samples = []
        for uuid, gpu in list(self._gpus.items()):
            try:
                samples.append(gpu.read(at, now))
                self._lost.pop(uuid, None)
            except self._nvml.NVMLError as error:
                if is_driver_lost(error):
                    raise
                self._lost[uuid] = str(error)
                self._gpus.pop(uuid).close()
        samples.sort(key=lambda sample: sample.gpu.index)
        return Sample(at, driver, tuple(samples), dict(self._lost))
