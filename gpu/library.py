"""Choice of NVML's library: NVIDIA's through `pynvml`, or the simulated one with the same names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = ["Nvml", "load"]

# A module or object with pynvml's functions, constants and errors.
Nvml = Any


def load(simulate: str | None = None, home: Path | None = None, *, dcgm: bool = False) -> Nvml:
    """Return NVML, not yet initialised.

    Parameters
    ----------
    simulate
        Simulated GPUs instead of real ones, see `hypergauge.simulation.specification`.
    home
        ``BENCH_HOME``: processes that simulate the same GPUs in the same home share one world. Without it the world is
        this process's own.
    dcgm
        Whether simulated GPUs have the figures that DCGM gets of real ones, beyond those of GPM.

    Raises
    ------
    BadRequest
        The specification cannot be read.
    """
    if simulate:
        from hypergauge.simulation import SimulatedNvml, World

        return SimulatedNvml(World.open(simulate, home and home / "simulated"), dcgm)
    import pynvml

    return pynvml
