"""Simulated GPUs with the functions of pynvml. All processes of a home share them."""

from hypergauge.simulation.hardware.world import World
from hypergauge.simulation.nvml.library import SimulatedNvml

__all__ = ["SimulatedNvml", "World"]
