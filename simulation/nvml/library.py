"""Replacement for the module pynvml, answered by the simulation."""

from __future__ import annotations

import types
from typing import Any

import pynvml

from hypergauge.simulation.nvml.buffers import Buffers
from hypergauge.simulation.nvml.contexts import Contexts
from hypergauge.simulation.nvml.devices import Devices
from hypergauge.simulation.nvml.events import Events
from hypergauge.simulation.nvml.gpm import Gpm
from hypergauge.simulation.nvml.metrics import Metrics
from hypergauge.simulation.nvml.partition import Partition

__all__ = ["SimulatedNvml"]


class SimulatedNvml(Devices, Partition, Metrics, Buffers, Contexts, Events, Gpm):
    """Replacement for the module pynvml: its functions, constants, structs and errors.

    Each object is a session of its own, as the module is in a process. Names, arguments, results and errors are those
    of pynvml, documented by NVML. It supports the functions that this product calls; others raise
    ``NVMLError_FunctionNotFound``, as with an older driver.

    Parameters
    ----------
    world
        The GPUs.
    dcgm
        Whether every datacenter GPU supports GPM, like DCGM's profiling, and not only Hopper and later.
    """

    SIMULATED = True

    def __getattr__(self, name: str) -> Any:
        value = getattr(pynvml, name)
        if isinstance(value, types.FunctionType) and name.startswith("nvml") and not name.startswith("nvmlStruct"):
            return _missing
        return value


def _missing(*_arguments: object, **_keywords: object) -> None:
    raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
