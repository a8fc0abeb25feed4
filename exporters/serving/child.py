"""Child process that prints lines, read by a thread and ended with its exporter."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import psutil

__all__ = ["Child", "cpu_seconds"]

_END_SECONDS = 5.0
# Lets the kernel end the program together with the thread that started it, also after a SIGKILL of this process. A
# separate process does this, since Python code between fork and exec of a process with threads may hang.
_BOUND = (
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9, 0, 0, 0); "
    "os.getppid() == int(sys.argv[1]) and os.execvp(sys.argv[2], sys.argv[2:])"
)

# CPU time of running programs as of the last call, and of all ended ones.
_used: dict[int, float] = {}
_used_before = [0.0]
_using = threading.Lock()


def cpu_seconds() -> float:
    """Return the CPU time of this process's child programs as far as it was measured while they ran. It never falls."""
    with _using:
        for pid in _used:
            with contextlib.suppress(psutil.Error):
                times = psutil.Process(pid).cpu_times()
                _used[pid] = max(_used[pid], times.user + times.system)
        return _used_before[0] + sum(_used.values())


class Child:
    """Running program, from one start to its end.

    Parameters
    ----------
    on_line
        Called with each line by the reading thread, which holds `changed`.
    environment
        Environment of the program; by default that of this process.
    errors
        Whether lines of standard error are read too.

    Attributes
    ----------
    changed
        Guards the following attributes, and is notified of each line and of the end.
    line, line_at
        The last line, ``None`` before the first, and its time by `time.monotonic`.
    failure, ended_at
        Reason and time of the end, ``None`` while the program may run.
    """

    def __init__(
        self,
        command: Sequence[str],
        on_line: Callable[[str], None] | None = None,
        environment: Mapping[str, str] | None = None,
        *,
        errors: bool = False,
    ) -> None:
        self.name = Path(command[0]).name
        self.started_at = time.monotonic()
        self.changed = threading.Condition()
        self.line: str | None = None
        self.line_at = 0.0
        self.failure: str | None = None
        self.ended_at = 0.0
        self._command, self._on_line = list(command), on_line
        self._environment = None if environment is None else dict(environment)
        self._errors = subprocess.STDOUT if errors else subprocess.DEVNULL
        self._process: subprocess.Popen[str] | None = None
        # The reading thread starts the program, since the kernel ends it with the thread that did.
        self._thread = threading.Thread(target=self._follow, name=self.name, daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        """Return whether the program runs. Lines may still arrive shortly after its end."""
        with self.changed:
            if self.failure is not None or self._process is None:
                return self.failure is None
            ended = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            return ended is None

    def close(self) -> None:
        """End the program and its child processes; a second call has no effect."""
        with self.changed:
            self._fail("was ended")
            self._kill()
        self._thread.join(_END_SECONDS)

    def _follow(self) -> None:
        command = self._command
        if sys.platform == "linux":
            command = [sys.executable, "-I", "-S", "-c", _BOUND, str(os.getpid()), *command]
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._errors, env=self._environment,
                encoding="utf-8", errors="replace", start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            with self.changed:
                self._fail(f"cannot be started: {error.strerror}")
            return
        with _using:
            _used[process.pid] = 0.0
        with process:
            with self.changed:
                self._process = process
                if self.failure is not None:  # ended before it was started
                    self._kill()
            for line in process.stdout or ():
                with self.changed:
                    self.line, self.line_at = line, time.monotonic()
                    if self._on_line is not None:
                        self._on_line(line)
                    self.changed.notify_all()
            with _using:
                _used_before[0] += _used.pop(process.pid)
            with self.changed:
                # Reaped under the lock: until then the pid is not reused, so a signal to it is safe.
                try:
                    status = process.wait(1)
                except subprocess.TimeoutExpired:  # it only closed its output
                    self._kill()
                    status = process.wait()
                self._process = None
                self._fail(f"has ended with status {status}")

    def _fail(self, failure: str) -> None:
        if self.failure is None:
            self.failure, self.ended_at = failure, time.monotonic()
        self.changed.notify_all()

    def _kill(self) -> None:
        # The kernel reuses the number of a process group only after its last member has ended.
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
