"""A vendor's tool that prints a line a second: started when it is first asked, and ended with us."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Tool"]

_FRESH_SECONDS = 5.0  # an older line is no figure
_FIRST_SECONDS = 3.0  # for how long a reading waits for the first line, after one interval and what the start takes
_END_SECONDS = 5.0
# Has the kernel end the tool when the thread that started it ends, which a SIGKILL of ours does; unless it was too late.
# By a process of its own, since Python code between fork and exec of a process with threads may hang.
_BOUND = (
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9, 0, 0, 0); "
    "os.getppid() == int(sys.argv[1]) and os.execvp(sys.argv[2], sys.argv[2:])"
)


@dataclass(slots=True, eq=False)
class _Run:
    """One start of the tool, guarded by the lock of its `Tool`."""

    started_at: float = field(default_factory=time.monotonic)
    process: subprocess.Popen[str] | None = None
    thread: threading.Thread | None = None
    line: str | None = None
    line_at: float = 0.0
    failure: str | None = None
    ended_at: float = 0.0

    def fail(self, failure: str) -> None:
        if self.failure is None:
            self.failure, self.ended_at = failure, time.monotonic()


class Tool:
    """Runs `command` and keeps the last line that it printed.

    Parameters
    ----------
    pause
        Seconds between its end and the next start.
    """

    def __init__(self, *command: str, pause: float = 5.0) -> None:
        self._command, self._pause = command, pause
        self._changed = threading.Condition()
        self._run: _Run | None = None

    def line(self) -> str:
        """Return the last line; start the tool where it does not run, and wait a little for its first.

        Raises
        ------
        ChildProcessError
            It has ended; it is started again by a later call.
        TimeoutError
            It runs and says nothing.
        """
        with self._changed:
            run = self._run
            if run is None or (run.failure is not None and time.monotonic() - run.ended_at >= self._pause):
                run = self._run = _Run()
                # Started by the thread that reads it, and no other: the kernel ends the tool with that thread.
                run.thread = threading.Thread(target=self._follow, args=[run], name=f"tool {self._name}", daemon=True)
                run.thread.start()
            left = run.started_at + _FIRST_SECONDS - time.monotonic()
            self._changed.wait_for(lambda: run.line is not None or run.failure is not None, timeout=max(left, 0))
            if run.failure is not None:
                raise ChildProcessError(f"{self._name} {run.failure}")
            silent = time.monotonic() - (run.line_at if run.line is not None else run.started_at)
            if run.line is None or silent > _FRESH_SECONDS:
                raise TimeoutError(f"{self._name} has said nothing for {silent:.0f} s")
            return run.line

    def close(self) -> None:
        """End the tool; before a start and a second time this changes nothing."""
        with self._changed:
            run, self._run = self._run, None
            if run is None:
                return
            run.fail("was ended")
            _kill(run)
            self._changed.notify_all()
        if run.thread is not None:
            run.thread.join(_END_SECONDS)

    @property
    def _name(self) -> str:
        return Path(self._command[0]).name

    def _follow(self, run: _Run) -> None:
        command = list(self._command)
        if sys.platform == "linux":
            command = [sys.executable, "-I", "-S", "-c", _BOUND, str(os.getpid()), *command]
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                encoding="utf-8", errors="replace", start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            with self._changed:
                run.fail(f"cannot be started: {error.strerror}")
                self._changed.notify_all()
            return
        with process:
            with self._changed:
                run.process = process
                if run.failure is not None:  # ended before it was started
                    _kill(run)
            for line in process.stdout or ():
                with self._changed:
                    run.line, run.line_at = line, time.monotonic()
                    self._changed.notify_all()
            with self._changed:
                # It is waited for under the lock: until then its number is nobody else's, and may be sent a signal.
                try:
                    status = process.wait(1)
                except subprocess.TimeoutExpired:  # it only closed its output
                    _kill(run)
                    status = process.wait()
                run.process = None
                run.fail(f"has ended with status {status}")
                self._changed.notify_all()


def _kill(run: _Run) -> None:
    if run.process is not None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(run.process.pid, signal.SIGKILL)
