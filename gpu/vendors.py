"""Vendors of GPUs in one table: their names, their exporters, and the variables that show or hide their GPUs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["NVIDIA", "VENDORS", "Variable", "Vendor", "VisibleGpu", "contradicting", "visibility"]


class Variable(NamedTuple):
    """Environment variable that limits the GPUs of a process.

    Attributes
    ----------
    none
        Value that hides all GPUs.
    counts
        Whether its value numbers the GPUs that the variables before it leave. Otherwise it names them.
    """

    name: str
    none: str
    counts: bool = False


@dataclass(frozen=True, slots=True)
class Vendor:
    """Vendor of GPUs.

    Attributes
    ----------
    name
        Name in front of a device's number, as in ``amd:0``.
    title
        Name for people.
    exporters
        Exporters that measure its GPUs.
    variables
        Variables that show or hide its GPUs, in the order in which its libraries apply them.
    contradicting
        Variables of the shell that its libraries read as well, and that a run with assigned devices does not inherit.
    constants
        Variables that make the numbers of its libraries those of this table.
    partitions
        Whether its GPUs have MPS and MIG.
    """

    name: str
    title: str
    exporters: tuple[str, ...]
    variables: tuple[Variable, ...] = ()
    contradicting: tuple[str, ...] = ()
    constants: Mapping[str, str] = field(default_factory=dict)
    partitions: bool = False


class VisibleGpu(NamedTuple):
    """GPU or MIG instance that a run sees.

    Attributes
    ----------
    vendor
        Name of its vendor.
    id
        Name in the vendor's variables.
    files
        Device files that a container needs.
    """

    vendor: str
    id: str
    files: tuple[str, ...] = ()


NVIDIA = "nvidia"
_CUDA = Variable("CUDA_VISIBLE_DEVICES", none="")
# ROCm: https://rocm.docs.amd.com/en/latest/conceptual/gpu-isolation.html. Its runtime shows the GPUs that
# ROCR_VISIBLE_DEVICES names, none if the value is empty. HIP numbers what is left from 0, and reads an empty value like a
# missing one: then CUDA_VISIBLE_DEVICES counts. An invalid number such as -1 hides all.
_ROCM = (Variable("ROCR_VISIBLE_DEVICES", none=""), Variable("HIP_VISIBLE_DEVICES", none="-1", counts=True))
# Level Zero: https://oneapi-src.github.io/level-zero-spec/level-zero/latest/core/PROG.html#environment-variables. Its
# runtime ignores an empty mask, and skips a number that no host reaches.
_LEVEL_ZERO = Variable("ZE_AFFINITY_MASK", none="999")
_OF_LEVEL_ZERO = ("ZE_FLAT_DEVICE_HIERARCHY", "ONEAPI_DEVICE_SELECTOR")

VENDORS: Mapping[str, Vendor] = {
    vendor.name: vendor
    for vendor in (
        Vendor(NVIDIA, "NVIDIA", ("nvml", "dcgm"), (_CUDA,), partitions=True),
        Vendor("amd", "AMD", ("amd",), _ROCM, contradicting=(_CUDA.name, "GPU_DEVICE_ORDINAL")),
        Vendor("jetson", "Jetson", ("jetson",), (_CUDA,)),
        Vendor("apple", "Apple", ("apple",)),
        Vendor("intel", "Intel", ("intel",), (_LEVEL_ZERO,), _OF_LEVEL_ZERO, {"ZE_ENABLE_PCI_ID_DEVICE_ORDER": "1"}),
    )
}


def visibility(visible: Sequence[VisibleGpu], present: Collection[str]) -> dict[str, str]:
    """Return the variables of a run that sees these GPUs, and none of the other GPUs of a host.

    Parameters
    ----------
    present
        Names of the vendors whose GPUs the host has.
    """
    found: dict[str, str] = {}
    for vendor in VENDORS.values():
        ids = [gpu.id for gpu in visible if gpu.vendor == vendor.name]
        if ids or vendor.name in present:
            for variable in vendor.variables:
                words = [str(number) for number in range(len(ids))] if variable.counts else ids
                found[variable.name] = ",".join(words) if words else variable.none
            found.update(vendor.constants)
    return found


def contradicting(present: Collection[str]) -> set[str]:
    """Return the variables of the shell that would contradict those of `visibility`."""
    return {name for vendor in VENDORS.values() if vendor.name in present for name in vendor.contradicting}
