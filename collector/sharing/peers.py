"""Last known targets of other collectors, for the time when the database is away."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from pathlib import Path

from hypergauge.collector.discovery.targets import Key
from hypergauge.core.files.run_folder import write_atomically

__all__ = ["PeersTargets"]

_log = logging.getLogger(__name__)


class PeersTargets:
    """Targets of other collectors, as of the last contact with the database.

    If targets are shared, any target may belong to another collector by now: a silent collector loses its own. Without
    a file, no other collector is known.

    Parameters
    ----------
    memory
        The file that stores the targets; ``None`` for no file.
    """

    def __init__(self, memory: Path | None) -> None:
        self._memory = memory
        self._shared, self._keys = False, frozenset[Key]()
        self._stored: tuple[bool, frozenset[Key]] | None = None
        if memory is not None and memory.exists():
            try:
                content = json.loads(memory.read_text(encoding="utf-8"))
                self._shared = bool(content["shared"])
                self._keys = frozenset((host, listener, instance) for host, listener, instance in content["targets"])
            except (OSError, ValueError, KeyError, TypeError) as error:
                _log.warning("%s cannot be read (%s): other collectors may have targets", memory, error)
                self._shared = True

    def may_have(self, key: Key) -> bool:
        """Return whether another collector may have a target."""
        return self._shared or key in self._keys

    def store(self, keys: Iterable[Key], *, shared: bool) -> None:
        """Store the targets of other collectors, and whether all are shared."""
        now = shared, frozenset(keys)
        if self._memory is None or now == self._stored:
            return
        self._shared, self._keys = self._stored = now
        try:
            write_atomically(self._memory, json.dumps({"shared": shared, "targets": sorted(self._keys)}))
        except OSError as error:  # a full disk costs no lease
            _log.warning("%s cannot be written: %s", self._memory, error.strerror)
