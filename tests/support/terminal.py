"""Terminal of a running command, with keys and screen."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from hypergauge.core.system.polling import readable
from tests.support.home import listen_to_interrupts
from tests.support.waiting import HUNG_SECONDS

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class Terminal:
    """Command at a terminal with a given number of columns."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str], folder: Path, columns: int = 120) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))

        def take() -> None:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # so that Ctrl-C is an interrupt
            listen_to_interrupts()

        self.process = subprocess.Popen(
            [*words], stdin=theirs, stdout=theirs, stderr=theirs, env={**environment, "TERM": "xterm-256color"},
            cwd=folder, start_new_session=True, preexec_fn=take,
        )  # fmt: skip
        os.close(theirs)
        self._written = bytearray()
        self._hung_up = threading.Event()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        while not self._hung_up.is_set():
            if not readable([self._ours], 0.05):
                continue
            try:
                self._written += os.read(self._ours, 65536)
            except OSError:  # all processes of the terminal have ended
                return

    @property
    def text(self) -> str:
        """All output, without colors and cursor movements."""
        return _ESCAPES.sub("", bytes(self._written).decode(errors="replace"))

    @property
    def screen(self) -> str:
        """Output since the last drawing of a table."""
        return self.text[max(self.text.rfind(" run "), 0) :]

    def press(self, key: str) -> None:
        """Press a key."""
        os.write(self._ours, key.encode())

    def hang_up(self) -> None:
        """Close the terminal under its processes."""
        self._hung_up.set()
        self._reader.join()
        os.close(self._ours)

    def end(self) -> None:
        """Kill the command, if it has not ended."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if not self._hung_up.is_set():
            self.hang_up()

    def wait(self, status: int = 0, timeout: float = HUNG_SECONDS) -> str:
        """Wait for the command's end, and return its last screen."""
        found = self.process.wait(timeout)
        self._reader.join()
        self.hang_up()
        assert found == status, self.text
        return self.screen
