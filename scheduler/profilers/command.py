"""Command under profilers: its exit, and an end that lets profilers write their files."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen

from hypergauge.core.files.run_folder import RunFolder
from hypergauge.core.system.processes import end_run
from hypergauge.scheduler.profilers.base import MARK

__all__ = ["CommandEnd", "ProfiledCommand"]

# What a profiler may take for its report when the command has ended: that of a day of kernels is gigabytes.
_REPORT_SECONDS = 120.0
_POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class CommandEnd:
    """Exit of a command.

    Attributes
    ----------
    returncode
        Its exit status, or the negative number of the signal that ended it.
    ended_at
        By `time.monotonic`, which all processes of a host share.
    log
        The file whose last lines may tell why.
    lost_by
        The profilers, where they ended before it and took it with them.
    """

    returncode: int
    ended_at: float
    log: Path
    lost_by: str = ""


class ProfiledCommand:
    """The command of a run, with the profilers that are around it, where there are any.

    Parameters
    ----------
    process
        What was started: the command, or the outermost profiler.
    around
        Their names, joined by ``+``; empty for none.

    Attributes
    ----------
    pause
        Seconds after which to ask again whether it has ended, where no signal tells.
    """

    def __init__(self, process: Popen[bytes], folder: RunFolder, around: str) -> None:
        self.process, self._folder, self._around = process, folder, around
        self.pause = 0.2 if around else 60.0

    def ended(self) -> CommandEnd | None:
        """Return how the command ended, ``None`` while it goes on; its profilers may be at work still."""
        over = self.process.poll() is not None  # asked first: whoever was over by then has left what it leaves
        if self._around and (end := self._left()) is not None:
            return end
        if not over:
            return None
        if not self._around:
            return CommandEnd(self.process.returncode, time.monotonic(), self._folder.output)
        return CommandEnd(self.process.returncode or 1, time.monotonic(), self._folder.profiler_log, self._around)

    def end(self, grace: float) -> None:
        """End the run's processes: the command's first, `grace` seconds for each kind, its profilers when they have written."""
        if self._around:
            give_up_at = time.monotonic() + _REPORT_SECONDS
            while self.process.poll() is None and time.monotonic() < give_up_at:
                end_run(self._folder.run_id, grace, spare=MARK.encode())
                time.sleep(_POLL_SECONDS)
        end_run(self._folder.run_id, grace)

    def _left(self) -> CommandEnd | None:
        try:
            left = json.loads(self._folder.command_end.read_text(encoding="ascii"))
            return CommandEnd(int(left["returncode"]), float(left["ended_at"]), self._folder.output)
        except (OSError, ValueError, KeyError, TypeError):
            return None
