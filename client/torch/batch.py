"""Reductions of one step on their way from the device to the file."""

from __future__ import annotations

import sys
import time
from array import array
from collections.abc import Mapping

import torch
from torch import Tensor

from hypergauge.client.tensors import REDUCTIONS, TensorFile
from hypergauge.client.torch.reductions import Value

__all__ = ["Batch"]


class Batch:
    """Reductions of one step, fetched from each device by one transfer that nothing waits for."""

    def __init__(self, step: int, model: int) -> None:
        self._step, self._model, self._at = step, model, 0.0
        self._rows: dict[str, dict[str, tuple[int, dict[str, Value]]]] = {}
        self._transfers: list[tuple[list[tuple[dict[str, Value], str]], Tensor, torch.cuda.Event | None]] = []

    def __bool__(self) -> bool:
        return bool(self._rows)

    def add(self, collection: str, name: str, size: int, values: Mapping[str, Value]) -> None:
        """Add reductions of a tensor. A later value of the same reduction replaces an earlier one."""
        known = self._rows.setdefault(collection, {}).get(name)
        self._rows[collection][name] = (size, {**known[1], **values} if known else dict(values))

    def transfer(self) -> None:
        """Begin the transfers from the devices, at the end of the step."""
        self._at = time.time()
        cells: dict[torch.device, list[tuple[dict[str, Value], str, Tensor]]] = {}
        for row in self._rows.values():
            for _, values in row.values():
                for reduction, value in values.items():
                    if isinstance(value, Tensor):
                        cells.setdefault(value.device, []).append((values, reduction, value))
        for device, found in cells.items():
            stacked = torch.stack([value.float() for _, _, value in found])
            event = None
            if device.type == "cuda":
                here = torch.empty(len(found), dtype=torch.float32, pin_memory=True)
                here.copy_(stacked, non_blocking=True)
                event = torch.cuda.Event()
                event.record(torch.cuda.current_stream(device))
            else:
                here = stacked.cpu()
            self._transfers.append(([(values, reduction) for values, reduction, _ in found], here, event))

    @property
    def is_here(self) -> bool:
        """Whether no transfer from a device is in progress, as after a step on a CPU."""
        return all(event is None for _, _, event in self._transfers)

    @property
    def arrived(self) -> bool:
        """Whether all values are on the host."""
        return all(event is None or event.query() for _, _, event in self._transfers)

    def write(self, file: TensorFile) -> None:
        """Append the reductions to the file, a line for each collection; wait for values that have not arrived."""
        for cells, values, event in self._transfers:
            if event is not None:
                event.synchronize()
            for (row, reduction), value in zip(cells, values.tolist()):
                row[reduction] = value
        for collection, tensors in self._rows.items():
            present = set().union(*(values for _, values in tensors.values()))
            columns = {
                name: _bytes([values.get(name, float("nan")) for _, values in tensors.values()])
                for name in REDUCTIONS
                if name in present
            }
            sizes = [size for size, _ in tensors.values()]
            file.write(self._step, collection, tuple(tensors), sizes, columns, model=self._model, at=self._at)


def _bytes(values: list[Value]) -> bytes:
    found = array("f", values)
    if sys.byteorder == "big":
        found.byteswap()
    return found.tobytes()
