"""Exits of runs: the exporter shows last totals and end times for a minute."""

from __future__ import annotations

import logging
import math
from pathlib import Path

from hypergauge.core.files.run_folder import RunEnd, RunFolder

__all__ = ["RunExits"]

# How long a run's final totals are shown: enough for a scrape a minute, the longest interval that a collector has.
_FINAL_SECONDS = 60.0
# A folder that changed no longer ago than this is looked into. It is wider than the above, since clocks of file servers
# differ from ours.
_RECENT_SECONDS = 120.0
# A run of which nothing has been seen for so long, and that has left no end, is forgotten.
_FORGET_SECONDS = 3600.0

_log = logging.getLogger(__name__)


class RunExits:
    """The runs that have ended, as their folders tell; cheap to ask every second.

    Attributes
    ----------
    recent
        The ends of the last minute, by the run's id. For so long an exporter shows what the run has used in all.
    """

    def __init__(self, runs_dir: Path) -> None:
        self._runs_dir = runs_dir
        self._listed_at = -math.inf
        self._open: dict[str, RunFolder] = {}
        self._ended: set[str] = set()
        self._starts: dict[str, float] = {}
        self.recent: dict[str, RunEnd] = {}

    def __contains__(self, run_id: str) -> bool:
        return run_id in self._ended

    def knows(self, run_id: str) -> bool:
        """Return whether the run has a folder and goes on."""
        return run_id in self._open

    def started_at(self, run_id: str) -> float | None:
        """Return when a run that goes on was released (Unix seconds), ``None`` where its folder does not say."""
        if run_id in self._open and run_id not in self._starts:
            try:
                state = self._open[run_id].state()
            except (OSError, ValueError, TypeError):  # not ours to read, or not written by us
                return None
            if state is not None and state.started_at is not None:
                self._starts[run_id] = state.started_at
        return self._starts.get(run_id)

    def remembers(self, run_id: str, seen_at: float, now: float) -> bool:
        """Return whether totals of a run that was last seen alive at `seen_at` may still be asked for (Unix seconds)."""
        return run_id in self.recent or (run_id not in self and now - seen_at < _FORGET_SECONDS)

    def look(self, now: float) -> None:
        """Bring `recent`, the ends of the last minute, up to `now` (Unix seconds)."""
        changed_at = _changed_at(self._runs_dir)
        if changed_at is not None and (changed_at != self._listed_at or now - changed_at < _RECENT_SECONDS):
            self._listed_at = changed_at
            self._list()
        for folder in list(self._open.values()):
            changed_at = _changed_at(folder.path)
            if changed_at is None:
                self._forget(folder.run_id)
            elif now - changed_at < _RECENT_SECONDS:
                self._read(folder)
        self.recent = {run_id: end for run_id, end in self.recent.items() if now - end.ended_at < _FINAL_SECONDS}

    def _list(self) -> None:
        folders = {folder.run_id: folder for folder in RunFolder.all(self._runs_dir)}
        self._ended &= folders.keys()
        for run_id in folders.keys() - self._ended - self._open.keys():
            self._open[run_id] = folders[run_id]
            self._read(folders[run_id])

    def _read(self, folder: RunFolder) -> None:
        try:
            end = folder.end()
        except (OSError, ValueError, TypeError) as error:  # not ours to read, or not written by us
            _log.warning("the end of run %s cannot be read: %s", folder.run_id, error)
        else:
            if end is None:
                return
            self.recent[folder.run_id] = end
        self._ended.add(folder.run_id)
        self._forget(folder.run_id)

    def _forget(self, run_id: str) -> None:
        del self._open[run_id]
        self._starts.pop(run_id, None)


def _changed_at(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:
        return None
