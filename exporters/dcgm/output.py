"""Parser of ``dcgmi`` output: tables of GPUs, the hierarchy of MIG instances, the rows of ``dmon``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hypergauge.core.sentinels import FP64, INT32, INT64
from hypergauge.exporters.dcgm.entities import Value
from hypergauge.exporters.dcgm.fields import Field

__all__ = ["DcgmGpu", "Instance", "Rows", "parse_hierarchy", "parse_list"]

# Texts for a missing value in dcgm_structs.h; dmon truncates wide values, and appends dots.
_SENTINEL_TEXT = re.compile(r"|N/A|<<<.*>>>|.*\.\.\.")

_CELLS = re.compile(r"\|\s*(.*?)\s*\|\s*(.*?)\s*\|\s*")
_ENTITY_ID = re.compile(r"\(EntityID: (\d+)\)")
_ROW = re.compile(r"\s*(GPU|GPU-I|GPU-CI|GPU_I|GPU_CI) (\d+)(?:\s+(.*))?")


@dataclass(frozen=True, slots=True)
class DcgmGpu:
    """GPU in the list of ``dcgmi discovery -l``; `number` is DCGM's id."""

    number: int
    name: str
    pci_bus_id: str
    uuid: str


@dataclass(frozen=True, slots=True)
class Instance:
    """MIG instance in the hierarchy of ``dcgmi discovery -c``.

    `entity` is DCGM's number, unique on the host; `gpu` DCGM's id of its GPU; `instance` NVML's id.
    """

    entity: int
    gpu: int
    instance: int


def parse_list(text: str) -> list[DcgmGpu]:
    """Return the GPUs in the output of ``dcgmi discovery -l``."""
    found: list[tuple[int, dict[str, str]]] = []
    for line in text.splitlines():
        if match := _CELLS.fullmatch(line):
            if match[1].isdecimal():
                found.append((int(match[1]), {}))
            name, separator, value = match[2].partition(": ")
            if found and separator:
                found[-1][1][name] = value
    return [  # switches and network cards have tables, but no UUID
        DcgmGpu(number, _text(cells.get("Name", "")), cells["PCI Bus ID"], cells["Device UUID"])
        for number, cells in found
        if "PCI Bus ID" in cells and "Device UUID" in cells
    ]


def parse_hierarchy(text: str) -> list[Instance]:
    """Return the GPU instances in the output of ``dcgmi discovery -c``."""
    instances, gpu = [], None
    for line in text.splitlines():
        cells = _CELLS.fullmatch(line)
        entity = _ENTITY_ID.search(cells[2]) if cells else None
        if not cells or not entity:
            continue
        if cells[1].startswith("GPU "):
            gpu = int(entity[1])
        elif gpu is not None and (match := re.fullmatch(r"-> I \d+/(\d+)", cells[1])):
            instances.append(Instance(int(entity[1]), gpu, int(match[1])))
    return instances


class Rows:
    """Parser of the lines of ``dcgmi dmon`` for `fields`.

    From version 3 on, columns are aligned with the headings to the left, and an unsupported field is blank. Before, no
    column was blank, and numbers are aligned to the right.
    """

    def __init__(self, fields: Sequence[Field]) -> None:
        self._fields = fields
        self._starts: list[int] = []

    def read(self, line: str) -> tuple[str, int, dict[int, Value]] | None:
        """Return kind of entity (``GPU``, ``GPU-I``), number and values; ``None`` for other lines than rows."""
        if line.startswith("#"):
            starts = [match.start() for match in re.finditer(r"\S+", line)]
            self._starts = starts[1:] if line.startswith("#E") and len(starts) == len(self._fields) + 1 else []
            return None
        match = _ROW.fullmatch(line.rstrip())
        if match is None:
            return None
        cells = (match[3] or "").split()
        if len(cells) != len(self._fields):
            cells = list(self._columns(line.rstrip()))
        values = {
            field.number: value
            for field, cell in zip(self._fields, cells, strict=False)
            if (value := _value(cell, field.kind)) is not None
        }
        return match[1].replace("_", "-"), int(match[2]), values

    def _columns(self, line: str) -> Iterator[str]:
        """Yield the cells by the columns of the headings; nothing where a number runs into the next column."""
        if any(start < len(line) and not line[start - 1].isspace() for start in self._starts):
            return
        for start, end in zip(self._starts, [*self._starts[1:], len(line)], strict=False):
            yield line[start:end].strip()


def _value(cell: str, kind: str) -> Value | None:
    if kind == "str":
        return _text(cell) or None
    try:
        if kind == "int":
            number = int(cell)
            return None if number >= INT64 or number in INT32 else number
        value = float(cell)
    except ValueError:  # N/A, blank, or truncated
        return None
    return value if value < FP64[0] else None  # also None for NaN


def _text(cell: str) -> str:
    return "" if _SENTINEL_TEXT.fullmatch(cell) else cell
