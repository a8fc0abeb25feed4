"""NVML queries about one GPU: value, unsupported, not now, or lost."""

from __future__ import annotations

import math
from enum import IntEnum
from typing import Any, TypeGuard

from hypergauge.gpu.library import Nvml

__all__ = ["Queries", "is_driver_gone", "known"]


class _Code(IntEnum):
    """NVML's return codes, as far as they are told apart; they are part of its ABI and never change."""

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


_DRIVER_GONE = {
    _Code.UNINITIALIZED,
    _Code.DRIVER_NOT_LOADED,
    _Code.LIBRARY_NOT_FOUND,
    _Code.LIB_RM_VERSION_MISMATCH,
}
_GPU_GONE = {_Code.GPU_IS_LOST, _Code.RESET_REQUIRED, _Code.GPU_NOT_FOUND}
_NOT_HAD = {
    _Code.NOT_SUPPORTED,
    _Code.NO_PERMISSION,
    _Code.FUNCTION_NOT_FOUND,
    _Code.VGPU_ECC_NOT_SUPPORTED,
    _Code.ARGUMENT_VERSION_MISMATCH,
    _Code.DEPRECATED,
}
# DCGM's blanks for integers begin here; NVML's own are all ones, as 64 or 32 bits.
_BLANK_FROM = 2**63 - 16
_BLANK_32 = 2**32 - 1
_FIRST_BLANK_DOUBLE, _LAST_BLANK_DOUBLE = 140737488355328, 140737488355331


class Queries:
    """Asks about one GPU, and does not ask again for what it does not have.

    Parameters
    ----------
    nvml
        Initialised.
    handle
        The GPU's.
    """

    def __init__(self, nvml: Nvml, handle: object) -> None:
        self.nvml, self.handle = nvml, handle
        self._errors = (nvml.NVMLError, getattr(nvml, "NVMLLibraryMismatchError", nvml.NVMLError))
        self._not_had: set[tuple[object, ...]] = set()

    def ask(self, function: str, *arguments: object, of: object = None) -> Any:
        """Return what `function` says of the GPU, or of one of its MIG devices.

        Parameters
        ----------
        function
            Its name; one that this NVML has not is something that the GPU does not have.
        arguments
            Those after the handle.
        of
            Handle of the MIG device; all of a GPU have the same things.

        Returns
        -------
        Any
            ``None`` where there is no answer: never, or this time.

        Raises
        ------
        NVMLError
            The GPU, or the driver with all of them, is gone.
        """
        question = (of is None, function, *arguments)
        if question in self._not_had:
            return None
        call = getattr(self.nvml, function, None)
        try:
            if call is not None:
                return call(self.handle if of is None else of, *arguments)
        except self._errors as error:
            if not self.lacks(error):
                return None
        self._not_had.add(question)
        return None

    def lacks(self, error: Exception) -> bool:
        """Return whether `error` says that there will never be an answer; raise it where the GPU or driver is gone."""
        code = getattr(error, "value", _Code.FUNCTION_NOT_FOUND)
        if code in _DRIVER_GONE or code in _GPU_GONE:
            raise error
        if code == _Code.UNKNOWN:
            # A GPU off the bus says so to everything; one that works may say so to a single question.
            self.probe()
        return code in _NOT_HAD

    def probe(self) -> None:
        """Raise what NVML says of a GPU that does not even know its memory."""
        try:
            self.nvml.nvmlDeviceGetMemoryInfo(self.handle)
        except self.nvml.NVMLError as error:
            if error.value not in _NOT_HAD:
                raise


def is_driver_gone(error: Exception) -> bool:
    """Return whether no GPU will answer until NVML is initialised anew."""
    return getattr(error, "value", None) in _DRIVER_GONE


def known(value: Any) -> TypeGuard[float]:
    """Return whether a number is one: no blank, no NaN, no infinity."""
    if value is None or not math.isfinite(value):
        return False
    blank = value >= _BLANK_FROM or value == _BLANK_32 or _FIRST_BLANK_DOUBLE <= value <= _LAST_BLANK_DOUBLE
    return not blank
