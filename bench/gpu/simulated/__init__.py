"""A simulated world of GPUs that answers to the same names as pynvml; all processes of a home share it."""

from bench.gpu.simulated.nvml import SimulatedNvml
from bench.gpu.simulated.world import World

__all__ = ["SimulatedNvml", "World"]
