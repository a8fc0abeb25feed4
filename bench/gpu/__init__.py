"""The GPUs of this host, real ones through NVML or simulated ones: the one package that knows NVML."""

from bench.gpu.inventory import Gpu, Inventory, MigInstance, inventory
from bench.gpu.library import load

__all__ = ["Gpu", "Inventory", "MigInstance", "inventory", "load"]
