"""Folder of the spool: its lock, its identity and the numbers of its batches."""

from __future__ import annotations

import contextlib
import os
import re
import uuid
from pathlib import Path

from hypergauge.core.errors import BenchError
from hypergauge.core.files import private
from hypergauge.core.files.file_lock import FileLock
from hypergauge.core.files.run_folder import write_atomically

__all__ = ["SpoolFolder", "SpoolInUse", "SpoolUnwritable"]

_RESERVED = 1000  # batch numbers at a time: their file is written every 1000th append


class SpoolInUse(BenchError):
    """Another collector works on this spool."""


class SpoolUnwritable(BenchError):
    """The spool cannot be written."""


class SpoolFolder:
    """Locked folder with the files ``source`` and ``next``.

    Attributes
    ----------
    source
        32 hex digits that identify this spool's batches.
    next
        Number of the next batch.

    Raises
    ------
    SpoolInUse
        Another process has locked the folder.
    SpoolUnwritable
        A file is damaged.
    OSError
        The folder cannot be written.
    """

    def __init__(self, path: Path) -> None:
        private.make_folder(path)
        self._path = path
        self._lock = _locked(path / "lock")
        try:
            self.source = self._read("source", r"[0-9a-f]{32}") or self._write("source", uuid.uuid4().hex)
            self.next = self._reserved = int(self._read("next", r"[0-9]+") or 1)
        except BaseException:
            self.close()
            raise

    def skip(self, batch: int) -> None:
        """Never number a batch with `batch` or less."""
        self.next = self._reserved = max(self.next, batch + 1)

    def number(self) -> int:
        """Return the number of a new batch. The disk knows each number before its use."""
        if self.next >= self._reserved:
            self._reserved = int(self._write("next", str(self.next + _RESERVED)))
        self.next += 1
        return self.next - 1

    def close(self) -> None:
        """Release the lock; safe to call twice."""
        self._lock.release()

    def _read(self, name: str, form: str) -> str | None:
        path = self._path / name
        if not path.exists():
            return None
        content = path.read_text(encoding="ascii", errors="replace").strip()
        if not re.fullmatch(form, content):
            raise SpoolUnwritable(
                f"{path} is damaged: it holds {content[:40]!r}. Move the folder away to start a new one"
            )
        return content

    def _write(self, name: str, content: str) -> str:
        write_atomically(self._path / name, content)
        return content


def _locked(path: Path) -> FileLock:
    lock = FileLock(path)
    if not lock.take(0):
        owner = path.read_text(encoding="ascii", errors="replace")[:20] or "unknown"
        raise SpoolInUse(f"another collector (process {owner}) works on the spool {path.parent}")
    with contextlib.suppress(OSError):  # only users read it: a full disk must still be drained
        os.ftruncate(lock.fileno(), 0)
        os.pwrite(lock.fileno(), str(os.getpid()).encode(), 0)
    return lock
