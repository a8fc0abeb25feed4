"""Simulated GPUs that answer to pynvml's names. All processes of a home share them."""

from hypergauge.simulation.nvml import SimulatedNvml
from hypergauge.simulation.world import World

__all__ = ["SimulatedNvml", "World"]
