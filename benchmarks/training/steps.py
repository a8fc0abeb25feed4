"""Log of a process's steps in shared memory: time and CPU time at the end of each."""

from __future__ import annotations

import mmap
import struct
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

__all__ = ["Progress", "log_steps", "progress_at", "steps_logged"]

# A ring of 1 MiB: 65 s with steps of a millisecond. A stamp costs a microsecond and touches one cache line.
_STAMPS = 1 << 16
_HEAD, _STAMP = struct.Struct("Q"), struct.Struct("dd")
_START = 64  # bytes; the count has a cache line of its own

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Progress:
    """Steps and CPU seconds of a process at some times, both since its start; arrays of the same length."""

    steps: Array
    cpu_seconds: Array


def log_steps(path: Path, steps: Iterable[None]) -> None:
    """Write a stamp at the end of each step: monotonic time and the process's CPU time, in seconds."""
    size = _START + _STAMPS * _STAMP.size
    part = path.with_suffix(".part")
    with part.open("w+b") as file:
        file.truncate(size)
        memory = mmap.mmap(file.fileno(), size)
    part.rename(path)  # a reader sees the whole ring or none
    for number, _ in enumerate(steps):
        _STAMP.pack_into(
            memory, _START + number % _STAMPS * _STAMP.size, time.monotonic(), time.process_time()
        )  # fmt: skip
        _HEAD.pack_into(memory, 0, number + 1)


def steps_logged(path: Path) -> int:
    """Return the number of steps since the start; 0 before the first."""
    if not path.exists():
        return 0
    with path.open("rb") as file:
        return int(_HEAD.unpack(file.read(_HEAD.size))[0])


def progress_at(path: Path, times: Iterable[float]) -> Progress:
    """Return the progress at some monotonic times, linear within a step.

    Raises
    ------
    ValueError
        The log does not cover the times: it has no older stamp, or no newer one.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as memory:
        (count,) = _HEAD.unpack_from(memory)
        ring = np.frombuffer(memory[_START:], dtype=np.float64).reshape(_STAMPS, 2)
    # The older half may be overwritten during the copy.
    numbers = np.arange(max(count - _STAMPS // 2, 0), count)
    stamps = ring[numbers % _STAMPS]
    at = np.fromiter(times, dtype=np.float64)
    if not len(numbers) or at.min() < stamps[0, 0] or at.max() > stamps[-1, 0]:
        raise ValueError(f"the log {path.name} does not cover the times")
    return Progress(
        np.interp(at, stamps[:, 0], numbers + 1.0),
        np.interp(at, stamps[:, 0], stamps[:, 1]),
    )
