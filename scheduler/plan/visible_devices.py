"""Devices of rows as a plan shows them, with the GPUs that are hidden."""

from __future__ import annotations

from hypergauge.gpu import Inventory
from hypergauge.gpu.vendors import VENDORS
from hypergauge.scheduler.experiment.experiment_file import Row

__all__ = ["shown_devices"]


def shown_devices(row: Row, inventory: Inventory | None) -> str:
    """Return a row's devices: ``amd:0 (NVIDIA GPUs are hidden)``; the GPUs of a batch system's host are not known."""
    text = "+".join(row.devices) or "none"
    if inventory is None:
        return text if row.devices else f"{text} (GPUs are hidden)"
    used = {inventory.find(word).vendor for word in row.devices}
    hidden = [VENDORS[name].title for name in inventory.vendors if name not in used and VENDORS[name].variables]
    return f"{text} ({' and '.join(hidden)} GPUs are hidden)" if hidden else text
