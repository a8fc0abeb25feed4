"""Choice of NVML's library: NVIDIA's through `pynvml`, or the simulated one with the same names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = ["Nvml", "as_text", "load"]

# A module or object with pynvml's functions, constants and errors.
Nvml = Any


def load(simulate: str | None = None, home: Path | None = None, *, dcgm: bool = False) -> Nvml:
    """Return NVML, not initialized.

    Parameters
    ----------
    simulate
        Specification of simulated GPUs, see `hypergauge.simulation.hardware.specification`.
    home
        ``BENCH_HOME``: processes with the same specification in one home share the simulated GPUs. Without it they belong
        to this process alone.
    dcgm
        Whether simulated GPUs before Hopper have the profiling metrics of DCGM.

    Raises
    ------
    BadRequest
        The specification is invalid.
    """
    if simulate:
        from hypergauge.simulation import SimulatedNvml, World

        return SimulatedNvml(World.open(simulate, home and home / "simulated"), dcgm)
    import pynvml

    return pynvml


def as_text(value: str | bytes) -> str:
    """Return a string of NVML, which some versions of pynvml return as bytes."""
    return value.decode() if isinstance(value, bytes) else str(value)
