"""GPUs of this host, through NVML or simulated. The only package that calls NVML."""

from hypergauge.gpu.inventory import Gpu, Inventory, MigInstance, inventory
from hypergauge.gpu.library import load

__all__ = ["Gpu", "Inventory", "MigInstance", "inventory", "load"]
