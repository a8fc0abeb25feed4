"""py-spy: samples of the Python functions of a command and its children."""

from __future__ import annotations

import shutil
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path

from hypergauge.scheduler.profilers.base import Profiler
from hypergauge.scheduler.profilers.reports.folded import read_folded
from hypergauge.scheduler.profilers.reports.stacks import Phases, Recording

__all__ = ["LIVE_REPORT", "RATE", "PySpy"]

# File name of a live run's profile by number.
LIVE_REPORT = "py-spy-{}.txt"
# It outlives signals to the run, and ends as the command does.
_WAITING_SHELL = (
    'trap : TERM INT HUP; "$@"; status=$?; trap - TERM INT HUP; '
    "[ $status -gt 128 ] && kill -$((status - 128)) $$; exit $status"
)
# Samples per second of the profile of a whole run.
RATE = 50


class PySpy(Profiler):
    """py-spy, which reads the stacks of other processes from outside: the script runs unchanged."""

    name = "py-spy"
    report = "py-spy.txt"
    install = "pip install py-spy"

    @property
    def program(self) -> str:
        """See `Profiler.program`; its wheel puts it beside this interpreter, which need not be in ``PATH``."""
        return shutil.which(self.name) or shutil.which(self.name, path=sysconfig.get_path("scripts")) or self.name

    def problem(self, python: str) -> str | None:
        """See `Profiler.problem`."""
        return None if Path(self.program).is_file() else super().problem(python)

    def container_problem(self) -> str | None:
        """See `Profiler.container_problem`."""
        return self.problem("")

    def files(self) -> list[Path]:
        """Return its program, which needs nothing but the C library of the image."""
        return [Path(self.program)]

    def inside(self, words: Sequence[str]) -> list[str]:
        """Return the command line under a shell that waits for it.

        py-spy looks for new processes all the time. If it sees one between its fork from a Python process and its own
        program, it reads the wrong addresses ever after, and records nothing. A fork of a shell is no Python process.
        """
        return ["/bin/sh", "-c", _WAITING_SHELL, "sh", *words]

    def wrap(self, words: Sequence[str], folder: Path, options: Mapping[str, str]) -> list[str]:
        """Return the command line of ``py-spy record``, which starts the command itself and may therefore read it."""
        del options  # it has none
        return [*self.recording(folder / self.report, RATE), "--", *words]

    def recording(self, report: Path, rate: int) -> list[str]:
        """Return the command line without the processes to record."""
        return [
            self.program, "record", "--format", "raw", "--function", "--subprocesses",
            "--rate", str(rate), "--output", str(report),
        ]  # fmt: skip

    def read(self, report: Path, phases: Phases) -> Recording:
        """See `Profiler.read`."""
        del phases  # its samples have no times
        return read_folded(report, RATE)
