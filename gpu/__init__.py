"""The GPUs of this host, real ones through NVML or simulated ones: the one package that knows NVML."""

from hypergauge.gpu.inventory import Gpu, Inventory, MigInstance, inventory
from hypergauge.gpu.library import load

__all__ = ["Gpu", "Inventory", "MigInstance", "inventory", "load"]
