"""Output of runs, copied to standard output while they run."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from hypergauge.core.files.run_folder import RunFolder
from hypergauge.core.output import OutputReader

__all__ = ["OutputCopies", "copy_output"]

_LOOK_SECONDS = 0.05
_FOLLOW_SECONDS = 0.2


def copy_output(reader: OutputReader, growing: Callable[[], bool]) -> None:
    """Copy a run's output to standard output while `growing` returns true."""
    while True:
        more = growing()  # before the read, so that all output before the end is copied
        for chunk in reader.new():
            sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()
        if not more:
            return
        time.sleep(_FOLLOW_SECONDS)


class OutputCopies:
    """Copies of several runs' output, with one thread per run. A closed pipe ends the copies, not the runs.

    Parameters
    ----------
    runs_dir
        Folder with one folder per run.
    """

    def __init__(self, runs_dir: Path) -> None:
        self._runs_dir = runs_dir
        self._copies: dict[str, tuple[threading.Thread, threading.Event]] = {}

    def started(self, run_id: str) -> None:
        """Start copying the output of a run."""
        ended = threading.Event()
        thread = threading.Thread(target=self._copy, args=(run_id, ended), name="output", daemon=True)
        self._copies[run_id] = thread, ended
        thread.start()

    def ended(self, run_id: str) -> None:
        """Copy the rest of a run's output and wait for it; a run that never started is ignored."""
        if (copy := self._copies.pop(run_id, None)) is not None:
            thread, ended = copy
            ended.set()
            thread.join()

    def _copy(self, run_id: str, ended: threading.Event) -> None:
        out, last = sys.stdout.buffer, b"\n"
        with contextlib.closing(OutputReader(RunFolder(self._runs_dir / run_id).output)) as reader:
            try:
                while True:
                    over = ended.wait(_LOOK_SECONDS)  # before the read, so that all output before the end is copied
                    for chunk in reader.new():
                        out.write(chunk)
                        last = chunk
                    out.flush()
                    if over:
                        break
                if not last.endswith(b"\n") and sys.stdout.isatty():
                    out.write(b"\n")  # the command's next message starts on a new line
                    out.flush()
            except OSError:  # `bench run -- … | head`, or a closed terminal
                with contextlib.suppress(OSError):
                    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
