"""GPUs of this host: NVIDIA's through NVML or simulated, and those of other vendors. The only package that calls NVML."""

from hypergauge.gpu.devices import Gpu, MigInstance
from hypergauge.gpu.inventory import Inventory, inventory
from hypergauge.gpu.library import load

__all__ = ["Gpu", "Inventory", "MigInstance", "inventory", "load"]
