"""Process of a PostgreSQL server on this host, and whether it answers."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from psycopg import pq

from hypergauge.core.system.backoff import pauses
from hypergauge.core.system.processes import ProcessStat, read_stat

__all__ = ["answers", "postmaster"]

_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
_PING_SECONDS = 2  # libpq's shortest


def postmaster(data: Path) -> ProcessStat | None:
    """Return the process of the server on the data in `data`, ``None`` if none runs.

    The pid in its file may be that of a zombie, or of another program by now. A server's working directory is its data
    folder, and a zombie has none.
    """
    try:
        pid = int((data / "postmaster.pid").read_text().split(maxsplit=1)[0])
        return read_stat(pid) if Path(f"/proc/{pid}/cwd").samefile(data) else None
    except (OSError, ValueError, IndexError):
        return None


def answers(dsn: str, data: Path, seconds: float) -> bool:
    """Wait until the server on `data` accepts connections; return whether it answers within some seconds.

    A server that still recovers from a crash answers that it is starting.
    """
    answer: int = pq.Ping.NO_RESPONSE
    for pause in pauses(_SHORTEST_PAUSE, _LONGEST_PAUSE, within=seconds):
        answer = pq.PGconn.ping(f"{dsn}&connect_timeout={_PING_SECONDS}".encode())
        if answer == pq.Ping.OK:
            return True
        if answer == pq.Ping.NO_RESPONSE:
            if (process := postmaster(data)) is None:
                return False
            _resume(process)
        time.sleep(pause)
    return answer == pq.Ping.REJECT


def _resume(process: ProcessStat) -> None:
    """Continue a server that a signal has suspended."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(process.pid, signal.SIGCONT)
