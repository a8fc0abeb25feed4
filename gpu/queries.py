"""NVML queries about one GPU: value, unsupported, not now, or lost."""

from __future__ import annotations

import math
from enum import IntEnum
from typing import Any, TypeGuard

from hypergauge.core.sentinels import FP64, INT64
from hypergauge.gpu.library import Nvml

__all__ = ["NO_SAMPLES", "Queries", "is_driver_lost", "known", "typed"]

# NVML's codes for no new samples: success, which pynvml raises as an error, or not found.
NO_SAMPLES = {0, 6}


class _Code(IntEnum):
    """Return codes of NVML that need distinction. They are part of its ABI and never change."""

    UNINITIALIZED = 1
    INVALID_ARGUMENT = 2
    NOT_SUPPORTED = 3
    NO_PERMISSION = 4
    DRIVER_NOT_LOADED = 9
    LIBRARY_NOT_FOUND = 12
    FUNCTION_NOT_FOUND = 13
    GPU_IS_LOST = 15
    RESET_REQUIRED = 16
    LIB_RM_VERSION_MISMATCH = 18
    VGPU_ECC_NOT_SUPPORTED = 22
    ARGUMENT_VERSION_MISMATCH = 25
    DEPRECATED = 26
    GPU_NOT_FOUND = 28
    UNKNOWN = 999


_DRIVER_LOST = {
    _Code.UNINITIALIZED,
    _Code.DRIVER_NOT_LOADED,
    _Code.LIBRARY_NOT_FOUND,
    _Code.LIB_RM_VERSION_MISMATCH,
}
_GPU_LOST = {_Code.GPU_IS_LOST, _Code.RESET_REQUIRED, _Code.GPU_NOT_FOUND}
_UNSUPPORTED = {
    _Code.NOT_SUPPORTED,
    _Code.NO_PERMISSION,
    _Code.FUNCTION_NOT_FOUND,
    _Code.VGPU_ECC_NOT_SUPPORTED,
    _Code.ARGUMENT_VERSION_MISMATCH,
    _Code.DEPRECATED,
}
# The driver asks the GPU for each of these.
_PROBES: tuple[tuple[Any, ...], ...] = (
    ("nvmlDeviceGetMemoryInfo",), ("nvmlDeviceGetPowerUsage",), ("nvmlDeviceGetTemperature", 0), ("nvmlDeviceGetClockInfo", 1)
)  # fmt: skip
# NVML's own are all ones, as 64 bits (which lies above DCGM's) or as 32.
_ALL_ONES = 2**32 - 1
# Members of NVML's union of values, by value type.
_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")


class Queries:
    """Queries of one GPU. An unsupported query is not repeated.

    Parameters
    ----------
    nvml
        Initialized.
    handle
        The GPU's.
    """

    def __init__(self, nvml: Nvml, handle: object) -> None:
        self.nvml, self.handle = nvml, handle
        self._errors = (nvml.NVMLError, getattr(nvml, "NVMLLibraryMismatchError", nvml.NVMLError))
        self._unsupported: set[tuple[object, ...]] = set()

    def query(self, function: str, *arguments: object, of: object = None) -> Any:
        """Return the answer of `function` for the GPU, or for one of its MIG devices.

        Parameters
        ----------
        function
            Name of the function; one that this NVML lacks counts as unsupported.
        arguments
            Arguments after the handle.
        of
            Handle of a MIG device. All MIG devices of a GPU support the same queries.

        Returns
        -------
        Any
            ``None`` without an answer: unsupported, or not now.

        Raises
        ------
        NVMLError
            The GPU or the driver is lost.
        """
        query = (of is None, function, *arguments)
        if query in self._unsupported:
            return None
        call = getattr(self.nvml, function, None)
        try:
            if call is not None:
                return call(self.handle if of is None else of, *arguments)
        except self._errors as error:
            if not self.lacks(error):
                return None
        self._unsupported.add(query)
        return None

    def lacks(self, error: Exception) -> bool:
        """Return whether `error` means an unsupported query; raise it where the GPU or driver is lost."""
        code = getattr(error, "value", _Code.FUNCTION_NOT_FOUND)
        if code in _DRIVER_LOST or code in _GPU_LOST:
            raise error
        if code == _Code.UNKNOWN:
            # A GPU off the bus answers every query so; a working one may answer a single query so.
            self.probe()
        return code in _UNSUPPORTED

    def supports(self, function: str, *arguments: object, of: object = None) -> bool:
        """Return whether no answer to a `query` so far has shown that it is unsupported."""
        return (of is None, function, *arguments) not in self._unsupported

    def probe(self) -> None:
        """Raise NVML's error where the GPU answers none of the queries that each GPU supports one of.

        Integrated GPUs have no memory of their own, and some no sensors.
        """
        first: Exception | None = None
        for function, *arguments in _PROBES:
            try:
                getattr(self.nvml, function)(self.handle, *arguments)
            except AttributeError:  # this NVML lacks the function
                continue
            except self._errors as error:
                code = getattr(error, "value", _Code.FUNCTION_NOT_FOUND)
                if code in _DRIVER_LOST or code in _GPU_LOST:
                    raise
                if code in _UNSUPPORTED:
                    return
                first = first or error
            else:
                return
        if first is not None:
            raise first


def is_driver_lost(error: Exception) -> bool:
    """Return whether no GPU will answer until NVML is initialized again."""
    return getattr(error, "value", None) in _DRIVER_LOST


def known(value: Any) -> TypeGuard[float]:
    """Return whether a value is a number: no sentinel, NaN or infinity."""
    if value is None or not math.isfinite(value):
        return False
    return not (value >= INT64 or value == _ALL_ONES or FP64[0] <= value <= FP64[-1])


def typed(value: Any, value_type: int) -> Any:
    """Return the number in a union of values."""
    return getattr(value, _MEMBERS[value_type])
