"""Output of a running run, copied to standard output."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from pathlib import Path

from hypergauge.core.files.run_folder import RunFolder
from hypergauge.core.output import OutputReader

__all__ = ["PassedOn"]

_LOOK_SECONDS = 0.05


class PassedOn:
    """Copies what runs write, in a thread for each; a reader that is gone ends the copy and not the run.

    Parameters
    ----------
    runs_dir
        Folder with one folder a run.
    """

    def __init__(self, runs_dir: Path) -> None:
        self._runs_dir = runs_dir
        self._copies: dict[str, tuple[threading.Thread, threading.Event]] = {}

    def started(self, run_id: str) -> None:
        """Begin to copy the output of a run."""
        ended = threading.Event()
        thread = threading.Thread(target=self._copy, args=(run_id, ended), name="output", daemon=True)
        self._copies[run_id] = thread, ended
        thread.start()

    def ended(self, run_id: str) -> None:
        """Copy what is left of it; a run that was never seen to start has none."""
        if (copy := self._copies.pop(run_id, None)) is not None:
            thread, ended = copy
            ended.set()
            thread.join()

    def _copy(self, run_id: str, ended: threading.Event) -> None:
        out, last = sys.stdout.buffer, b"\n"
        with contextlib.closing(OutputReader(RunFolder(self._runs_dir / run_id).output)) as reader:
            try:
                while True:
                    over = ended.wait(_LOOK_SECONDS)  # asked first: what was written until then is copied
                    for chunk in reader.new():
                        out.write(chunk)
                        last = chunk
                    out.flush()
                    if over:
                        break
                if not last.endswith(b"\n") and sys.stdout.isatty():
                    out.write(b"\n")  # what we say next begins a line
                    out.flush()
            except OSError:  # `bench run -- … | head`, or a terminal that was closed
                with contextlib.suppress(OSError):
                    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
