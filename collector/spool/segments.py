"""Segment files of the spool: consecutive frames."""

from __future__ import annotations

import errno
import logging
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path

from hypergauge.collector.spool.frames import Frame, frame_at
from hypergauge.core.files.run_folder import sync_folder

__all__ = ["FULL", "Segment"]

_log = logging.getLogger(__name__)

FULL = (errno.ENOSPC, errno.EDQUOT)  # errors of a full disk


@dataclass(slots=True, eq=False)
class Segment:
    """File of frames.

    Attributes
    ----------
    size
        Bytes of the file; of whole frames only while it is open.
    pending
        Number of records that are not accepted yet.
    definitions, definition_bytes
        Offsets and lengths of the frames of definitions, and their sum.
    era
        Scope of its refs.
    defined
        The defined refs; known while it is open.
    """

    path: Path
    era: int
    size: int = 0
    pending: int = 0
    definitions: list[tuple[int, int]] = field(default_factory=list)
    definition_bytes: int = 0
    defined: set[int] = field(default_factory=set)
    _descriptor: int | None = None

    @classmethod
    def create(cls, path: Path, era: int) -> Segment:
        """Create a file and open it for writing."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        try:
            sync_folder(path.parent)
        except OSError:
            os.close(descriptor)
            path.unlink(missing_ok=True)
            raise
        return cls(path, era, _descriptor=descriptor)

    @property
    def open(self) -> bool:
        """Return whether it is open for writing."""
        return self._descriptor is not None

    def put(self, data: bytes) -> None:
        """Append all of `data`, or nothing.

        Raises
        ------
        OSError
            The disk fails; its number is one of `FULL` if the disk is full.
        """
        assert self._descriptor is not None
        written = 0
        try:
            written = os.write(self._descriptor, data)
        finally:
            if written < len(data):
                os.ftruncate(self._descriptor, self.size)
        if written < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.size += written

    def sync(self) -> None:
        """Sync to disk, in a thread: a slow disk must not delay scrapes."""
        if self._descriptor is not None:
            descriptor = os.dup(self._descriptor)
            threading.Thread(target=_sync_and_close, args=(descriptor, self.path), daemon=True).start()

    def finish(self) -> None:
        """Close the file for writing, and sync it to disk."""
        if self._descriptor is not None:
            self.sync()
            os.close(self._descriptor)
            self._descriptor = None
            self.defined.clear()

    def read(self, offset: int, length: int) -> Frame | None:
        """Return the frame at `offset`, ``None`` if it is damaged or cannot be read."""
        try:
            with self.path.open("rb", buffering=0) as file:
                return frame_at(os.pread(file.fileno(), length, offset))
        except OSError:
            return None


def _sync_and_close(descriptor: int, path: Path) -> None:
    try:
        os.fsync(descriptor)
    except OSError as error:
        _log.error("%s may not survive a power cut: %s", path, error.strerror)
    finally:
        os.close(descriptor)
