"""Output of a run, bounded: its beginning, the length of the gap, and the newest part.

The run appends to ``output.log``. When the file becomes too long, the supervisor removes its middle. It first writes
the range of missing bytes to ``output.left``, so that a reader never takes a removed block for output.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from hypergauge.core.files.run_folder import write_atomically

__all__ = ["LeftOut", "OutputReader", "whole_output"]

_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Gap in an output: the missing bytes, counted from the first byte that the run wrote.

    Attributes
    ----------
    start, end
        First missing byte, and the first byte after the gap.
    """

    start: int = 0
    end: int = 0

    @classmethod
    def read(cls, output: Path) -> LeftOut:
        """Return the gap of the file `output`."""
        try:
            content = json.loads(output.with_suffix(".left").read_text(encoding="utf-8"))
            return cls(int(content["start"]), int(content["end"]))
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return cls()

    def write(self, output: Path) -> None:
        """Write the gap to the file next to `output`."""
        write_atomically(output.with_suffix(".left"), json.dumps(asdict(self)))


class OutputReader:
    """Reader of a growing output.

    Parameters
    ----------
    output
        The run's file; it need not exist yet.
    """

    def __init__(self, output: Path) -> None:
        self._output = output
        self._position = 0
        self._file: int | None = None
        self._at_line_start = True

    def new(self) -> Iterator[bytes]:
        """Yield the output since the last call."""
        while chunk := self._next():
            self._at_line_start = chunk.endswith(b"\n")
            yield chunk

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _next(self) -> bytes:
        if self._file is None:
            try:
                self._file = os.open(self._output, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return b""
        while True:
            left = LeftOut.read(self._output)
            if left.start <= self._position < left.end:
                missing, self._position = left.end - self._position, left.end
                return f"{'' if self._at_line_start else chr(10)}… {_amount(missing)} left out …\n".encode()
            chunk = self._read(self._file, left)
            if LeftOut.read(self._output) == left:  # else the supervisor may be removing this block
                self._position += len(chunk)
                return chunk

    def _read(self, file: int, left: LeftOut) -> bytes:
        if self._position < left.start:
            return os.pread(file, min(_CHUNK_BYTES, left.start - self._position), self._position)
        return os.pread(file, _CHUNK_BYTES, self._position)


@contextlib.contextmanager
def whole_output(output: Path) -> Iterator[Path]:
    """Provide a file with the output, and a line in place of the gap; `output` itself if nothing is missing."""
    if LeftOut.read(output) == LeftOut():
        yield output
        return
    with tempfile.TemporaryDirectory(dir=output.parent) as folder, contextlib.closing(OutputReader(output)) as reader:
        path = Path(folder) / output.name
        with path.open("wb") as file:
            file.writelines(reader.new())
        yield path


def _amount(count: float) -> str:
    if count < 1024:
        return f"{count:.0f} bytes"
    for unit in ("KiB", "MiB", "GiB"):
        count /= 1024
        if count < 1024:
            return f"{count:.1f} {unit}"
    return f"{count / 1024:.1f} TiB"
