"""Output of a run, bounded: its beginning, the length of the gap, and the newest part.

The run appends to ``output.log`` by itself. Where that becomes too much, the supervisor takes away its middle, and writes
beside it, in ``output.left``, which bytes are missing: always before they are, so that whoever reads never takes what is
left of them for output.
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
    """Gap in an output: the missing bytes, counted from the first that the run has written.

    Attributes
    ----------
    start, end
        The bytes from `start` up to `end` are.
    moved
        By how much nearer to the file's beginning the bytes behind them are than they were written.
    cut
        Sizes of the file before and after it is being cut: of a file that has still the first, only the second counts.
    """

    start: int = 0
    end: int = 0
    moved: int = 0
    cut: tuple[int, int] | None = None

    @classmethod
    def read(cls, output: Path) -> LeftOut:
        """Return what is missing of the file `output`."""
        try:
            content = json.loads(output.with_suffix(".left").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return cls()
        return cls(**{**content, "cut": tuple(content["cut"]) if content["cut"] else None})

    def write(self, output: Path) -> None:
        """Record it."""
        write_atomically(output.with_suffix(".left"), json.dumps(asdict(self)))


class OutputReader:
    """Reads an output as it grows.

    Parameters
    ----------
    output
        The file that the run writes to; it need not be there yet.
    """

    def __init__(self, output: Path) -> None:
        self._output = output
        self._position = 0
        self._file: int | None = None
        self._at_line_start = True

    def new(self) -> Iterator[bytes]:
        """Yield what is there and was not yielded before."""
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
            if LeftOut.read(self._output) == left:  # else it may be a part that is just being taken away
                self._position += len(chunk)
                return chunk

    def _read(self, file: int, left: LeftOut) -> bytes:
        if self._position < left.start:
            return os.pread(file, min(_CHUNK_BYTES, left.start - self._position), self._position)
        place = self._position - left.moved
        if left.cut is not None and os.fstat(file).st_size == left.cut[0]:
            return os.pread(file, max(0, min(_CHUNK_BYTES, left.cut[1] - place)), place)
        return os.pread(file, _CHUNK_BYTES, place)


@contextlib.contextmanager
def whole_output(output: Path) -> Iterator[Path]:
    """Provide a file of the same name that reads as the output does: itself, where nothing of it is left out."""
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
