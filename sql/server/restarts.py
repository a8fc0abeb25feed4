"""Restarts of the embedded server since it was started by intent, for `bench status`."""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from hypergauge.core.files.run_folder import write_atomically

__all__ = ["Restart", "Restarts"]

_MOST = 100


@dataclass(frozen=True, slots=True)
class Restart:
    """Start after the server had died.

    Attributes
    ----------
    at
        Seconds since 1970.
    reason
        What was wrong with the server.
    """

    at: float
    reason: str


class Restarts:
    """Latest restarts of the server in a folder, oldest first, kept until it stops cleanly."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "restarts.json"

    def read(self) -> list[Restart]:
        """Return them; none if they cannot be read."""
        try:
            return [Restart(**entry) for entry in json.loads(self._path.read_text())]
        except (OSError, ValueError, TypeError):
            return []

    def add(self, reason: str) -> None:
        """Record a restart now."""
        entries = [*self.read(), Restart(time.time(), reason)][-_MOST:]
        with contextlib.suppress(OSError):  # a full disk
            write_atomically(self._path, json.dumps([asdict(entry) for entry in entries]))

    def forget(self) -> None:
        """Remove them."""
        self._path.unlink(missing_ok=True)
