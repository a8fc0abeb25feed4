"""A simulated world of GPUs that answers to the same names as pynvml; all processes of a home share it."""

from hypergauge.simulation.nvml import SimulatedNvml
from hypergauge.simulation.world import World

__all__ = ["SimulatedNvml", "World"]
