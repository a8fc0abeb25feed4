"""Command under profilers: its exit, and its termination, which lets profilers write their reports."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen

from hypergauge.core.files.run_folder import RunFolder
from hypergauge.core.system.processes import ProcessStat, end_run, interrupt_run, left_over
from hypergauge.scheduler.profilers.mark import MARK

__all__ = ["CommandEnd", "ProfiledCommand"]

# Time for a profiler to write its report after the command has ended: a day of kernels gives gigabytes.
_REPORT_SECONDS = 120.0
_POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class CommandEnd:
    """Exit of a command.

    Attributes
    ----------
    returncode
        Exit status, or the negative number of the signal that ended the command.
    ended_at
        End by `time.monotonic`, which all processes of a host share.
    log
        File whose last lines may contain the reason.
    lost_by
        Names of the profilers if they ended before the command; else empty.
    """

    returncode: int
    ended_at: float
    log: Path
    lost_by: str = ""


class ProfiledCommand:
    """Command of a run, with the profilers around it, if any.

    Parameters
    ----------
    process
        Process of the command, or of the outermost profiler.
    around
        Names of the profilers, joined by ``+``; empty for none.

    Attributes
    ----------
    pause
        Seconds between two polls of `ended`; short under profilers, where no signal reports the end of the command.
    """

    def __init__(self, process: Popen[bytes], folder: RunFolder, around: str) -> None:
        self.process, self._folder, self._around = process, folder, around
        self.pause = 0.2 if around else 60.0

    def ended(self) -> CommandEnd | None:
        """Return the exit of the command, ``None`` while it runs; its profilers may still be running after it."""
        over = self.process.poll() is not None  # before the file is read: it is complete once the process has ended
        if self._around and (end := self._left()) is not None:
            return end
        if not over:
            return None
        if not self._around:
            return CommandEnd(self.process.returncode, time.monotonic(), self._folder.output)
        return CommandEnd(self.process.returncode or 1, time.monotonic(), self._folder.profiler_log, self._around)

    def interrupt(self) -> None:
        """Send SIGINT to the command's process group, as a terminal does; profilers get none."""
        interrupt_run(self._folder.run_id, MARK.encode())

    def left_over(self, seconds: float) -> list[ProcessStat]:
        """Return the processes that have outlived the command by `seconds`, besides its profilers."""
        return left_over(self._folder.run_id, seconds, MARK.encode())

    def end(self, grace: float) -> None:
        """End the run's processes: first the command, then the profilers once they have written their reports.

        Each of them has `grace` seconds.
        """
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
