"""NVML as in pynvml, answered by the simulation."""

from __future__ import annotations

import types
from typing import Any

import pynvml

from hypergauge.simulation.contexts import Contexts
from hypergauge.simulation.devices import Devices
from hypergauge.simulation.events import Events
from hypergauge.simulation.figures import Figures
from hypergauge.simulation.gpm import Gpm
from hypergauge.simulation.partition import Partition

__all__ = ["SimulatedNvml"]


class SimulatedNvml(Devices, Partition, Figures, Contexts, Events, Gpm):
    """Stand-in for the module pynvml: its functions, constants, structs and errors.

    Each object is a session of its own, as the module is in a process. Names, arguments, results and errors are those
    of pynvml, and for what they mean NVML's documentation counts. A function that the simulated driver does not have
    raises ``NVMLError_FunctionNotFound``, as with a driver that is too old.

    Parameters
    ----------
    world
        The GPUs.
    dcgm
        Whether the figures of GPM can be had of every datacentre GPU, as DCGM measures them, and not just of those that
        have GPM.
    """

    SIMULATED = True

    def __getattr__(self, name: str) -> Any:
        value = getattr(pynvml, name)
        if isinstance(value, types.FunctionType) and name.startswith("nvml") and not name.startswith("nvmlStruct"):
            return _missing
        return value


def _missing(*_arguments: object, **_keywords: object) -> None:
    raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
