"""Entities of dcgm-exporter's metrics: GPUs and MIG instances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Entity", "Value"]

Value = int | float | str


@dataclass(frozen=True, slots=True)
class Entity:
    """GPU without MIG instances, or one MIG instance.

    Attributes
    ----------
    gpu, uuid, pci_bus_id, model
        Those of the GPU, also for an instance.
    values
        Values by the number of DCGM's field, in DCGM's units, without unsupported ones.
    instance, profile
        NVML's id of the GPU instance and its profile, such as ``1g.10gb``.
    """

    gpu: int
    uuid: str
    pci_bus_id: str
    model: str
    values: Mapping[int, Value] = field(default_factory=dict)
    instance: int | None = None
    profile: str = ""
    simulated: bool = False
