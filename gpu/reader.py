"""Reader of all GPUs of this host. A lost GPU affects no other."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

from hypergauge.gpu.device_handle import DeviceHandle
from hypergauge.gpu.library import Nvml
from hypergauge.gpu.queries import is_driver_gone
from hypergauge.gpu.sample import Sample
from hypergauge.gpu.xids import Xids

__all__ = ["GpuReader"]

# NVML shows some GPUs that came back only after it was initialised anew, which can take a second where no other program
# keeps the driver awake.
_ANEW_SECONDS = 60.0


class GpuReader:
    """Reads the GPUs again and again.

    A GPU that is lost leaves the others as they are; it is looked for at each reading. After the driver was restarted the
    next reading begins anew. MIG instances may come and go, also during a reading. Use it from one thread at a time.

    Parameters
    ----------
    nvml
        What `hypergauge.gpu.load` gave: not initialised. Nothing is asked before it is read.
    clock
        Seconds, for the time between readings.
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
        """Return why it cannot work here, ``None`` where it can."""
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
            The driver is not there. The next reading may find it again.
        """
        if self._lost and self._clock() - self._opened_at > _ANEW_SECONDS:
            self.close()
        try:
            driver = self._open()
            were_open = bool(self._gpus)
            sample = self._read(driver)
            if were_open and not self._gpus:
                # All at once: the driver was exchanged under us, and knows us no longer.
                self.close()
                sample = self._read(self._open())
            return sample
        except self._nvml.NVMLError:
            self.close()
            raise

    def close(self) -> None:
        """Let go of NVML; a later reading begins anew. A second time this changes nothing."""
        for gpu in self._gpus.values():
            gpu.close()
        self._gpus = {}
        if self._driver is not None:
            self._driver = None
            with contextlib.suppress(self._nvml.NVMLError):  # the driver is gone already
                self._nvml.nvmlShutdown()

    def _open(self) -> str:
        """Initialise NVML if need be, open all GPUs, and return the driver's version."""
        if self._driver is None:
            self._nvml.nvmlInit()
            self._driver = ""
            try:
                version = self._nvml.nvmlSystemGetDriverVersion()
                self._driver = version.decode() if isinstance(version, bytes) else str(version)
                self._find()
            except self._nvml.NVMLError:
                self.close()
                raise
            self._opened_at = self._clock()
        return self._driver

    def _find(self) -> None:
        """Open the GPUs that are not."""
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
                if is_driver_gone(error):
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
                samples.append(gpu.read(now))
                self._lost.pop(uuid, None)
            except self._nvml.NVMLError as error:
                if is_driver_gone(error):
                    raise
                self._lost[uuid] = str(error)
                self._gpus.pop(uuid).close()
        samples.sort(key=lambda sample: sample.gpu.index)
        return Sample(at, driver, tuple(samples), dict(self._lost))
