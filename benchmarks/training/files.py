"""I/O-bound training: reads of examples past the page cache, and synchronous writes, one process on each core.

The database server writes to the same disk.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.training.members import Members

__all__ = ["members"]

FILE_BYTES = 256 << 20
EXAMPLE_BYTES = 256 << 10
WRITE_BYTES = 64 << 10
# The written file starts again from its beginning.
_WRITES = 256


def members(cores: int, folder: Path) -> Members:
    """Return a trainer for each core, with its files in `folder`."""
    return {f"trainer-{number}": functools.partial(_steps, folder, number) for number in range(cores)}


def _steps(folder: Path, number: int) -> Iterator[None]:
    random = np.random.default_rng(number)
    examples, state = folder / f"examples-{number}", folder / f"state-{number}"
    with examples.open("wb") as file:
        for _ in range(FILE_BYTES // EXAMPLE_BYTES):
            file.write(random.bytes(EXAMPLE_BYTES))
        os.fsync(file.fileno())
    state.write_bytes(bytes(WRITE_BYTES * _WRITES))
    reading, writing = os.open(examples, os.O_RDONLY), os.open(state, os.O_WRONLY)
    step = 0
    while True:
        offset = int(random.integers(FILE_BYTES // EXAMPLE_BYTES)) * EXAMPLE_BYTES
        os.posix_fadvise(reading, offset, EXAMPLE_BYTES, os.POSIX_FADV_DONTNEED)
        example = np.frombuffer(os.pread(reading, EXAMPLE_BYTES, offset), dtype=np.uint8)
        os.pwrite(writing, example[:WRITE_BYTES].tobytes(), step % _WRITES * WRITE_BYTES)
        os.fdatasync(writing)
        step += 1
        yield
