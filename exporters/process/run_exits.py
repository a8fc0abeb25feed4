"""Exits of runs. Exporters expose end time and final totals of a run for a minute, and at least once."""

from __future__ import annotations

import logging
import math
from pathlib import Path

from hypergauge.core.files.run_folder import RunEnd, RunFolder

__all__ = ["RunExits"]

# Time to expose a run's final totals: enough for a collector's longest interval, one minute.
_FINAL_SECONDS = 60.0
# A folder is read if it changed within this time. It is longer than the above, since clocks of file servers differ.
_RECENT_SECONDS = 120.0
# Totals of a run without processes and without an end are dropped after this time.
_FORGET_SECONDS = 3600.0

_log = logging.getLogger(__name__)


class RunExits:
    """Ends of runs by their folders, cheap to read every second.

    Parameters
    ----------
    own_runs
        Whether exporters expose only runs with a folder here.

    Attributes
    ----------
    recent
        Ends within the last minute, by run id; once also those since the previous update, if no collector scraped.
    """

    def __init__(self, runs_dir: Path, own_runs: bool = False) -> None:
        self._runs_dir, self._own_runs = runs_dir, own_runs
        self._listed_at = -math.inf
        self._updated_at = math.inf
        self._open: dict[str, RunFolder] = {}
        self._ended: set[str] = set()
        self._starts: dict[str, float] = {}
        self.recent: dict[str, RunEnd] = {}

    def __contains__(self, run_id: str) -> bool:
        return run_id in self._ended

    def exposes(self, run_id: str) -> bool:
        """Return whether exporters expose the run: a live one, or one that ended within the last minute."""
        if run_id in self:
            return run_id in self.recent
        return not self._own_runs or run_id in self._open

    def started_at(self, run_id: str) -> float | None:
        """Return the start of a live run in Unix seconds, ``None`` where its folder lacks it."""
        if run_id in self._open and run_id not in self._starts:
            try:
                state = self._open[run_id].state()
            except (OSError, ValueError, TypeError):  # not readable, or of another program
                return None
            if state is not None and state.started_at is not None:
                self._starts[run_id] = state.started_at
        return self._starts.get(run_id)

    def keeps(self, run_id: str, seen_at: float, now: float) -> bool:
        """Return whether totals of a run last seen alive at `seen_at` are still needed (Unix seconds)."""
        return run_id in self.recent or (run_id not in self and now - seen_at < _FORGET_SECONDS)

    def update(self, now: float) -> None:
        """Read folders that changed, and update `recent` to `now` (Unix seconds)."""
        since, self._updated_at = min(self._updated_at, now), now
        exposed = set(self.recent)
        changed_at = _changed_at(self._runs_dir)
        if changed_at is not None and (changed_at != self._listed_at or since - changed_at < _RECENT_SECONDS):
            self._listed_at = changed_at
            self._list()
        for folder in list(self._open.values()):
            changed_at = _changed_at(folder.path)
            if changed_at is None:
                self._forget(folder.run_id)
            elif since - changed_at < _RECENT_SECONDS:
                self._read(folder)
        self.recent = {
            run_id: end
            for run_id, end in self.recent.items()
            if (now if run_id in exposed else since) - end.ended_at < _FINAL_SECONDS
        }

    def _list(self) -> None:
        folders = {folder.run_id: folder for folder in RunFolder.all(self._runs_dir)}
        self._ended &= folders.keys()
        for run_id in folders.keys() - self._ended - self._open.keys():
            self._open[run_id] = folders[run_id]
            self._read(folders[run_id])

    def _read(self, folder: RunFolder) -> None:
        try:
            end = folder.end()
        except (OSError, ValueError, TypeError) as error:  # not readable, or of another program
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
