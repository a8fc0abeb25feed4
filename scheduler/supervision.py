"""Supervision of runs: state of a run's supervisor, and the end of runs that have lost theirs."""

from __future__ import annotations

import contextlib
import os
import signal
import time

from hypergauge.core.files.run_folder import RunEnd, RunFolder
from hypergauge.core.system.processes import end_run as end_processes
from hypergauge.core.system.processes import is_alive
from hypergauge.sql.runs import runs
from hypergauge.sql.server.database import Connection

__all__ = [
    "INTERRUPTED",
    "ON_REQUEST",
    "VANISHED",
    "ask_to_stop",
    "end_container_of",
    "end_lost_run",
    "is_delivering",
    "is_running",
    "is_supervised",
    "may_write",
    "unseen_end",
    "was_seen",
]

# Begin of the reason of a run whose supervisor has died; SQL functions compare with it.
VANISHED = "its supervisor vanished"
# Reason of a stop without another one.
ON_REQUEST = "stopped on request"
# Reason of a run that ended after an interrupt of its terminal.
INTERRUPTED = "interrupted"


def end_container_of(folder: RunFolder) -> None:
    """Remove the container of a run that has one."""
    with contextlib.suppress(FileNotFoundError):
        if folder.spec().get("container"):
            from hypergauge.scheduler.environments.containers import end_container  # slow to import

            end_container(folder)


def is_supervised(folder: RunFolder) -> bool:
    """Return whether the supervisor of a run is alive, on this host."""
    state = folder.state()
    return state is not None and is_alive(state.pid, state.created)


def is_running(folder: RunFolder) -> bool:
    """Return whether a run is running on this host: its supervisor is alive and has not recorded its end."""
    return is_supervised(folder) and folder.end() is None


def is_delivering(folder: RunFolder) -> bool:
    """Return whether a run has ended and its supervisor still delivers its results."""
    return folder.end() is not None and is_supervised(folder)


def may_write(folder: RunFolder) -> bool:
    """Return whether a run's output may still grow: it has not ended, and its supervisor is alive or still starting."""
    return folder.end() is None and (folder.state() is None or is_supervised(folder))


def ask_to_stop(folder: RunFolder, reason: str | None = None) -> bool:
    """Ask the supervisor of a run on this host to end it; return whether there is one.

    Without a reason, that of an earlier request stays. The reason precedes the signal, which a thread may handle late.
    """
    state = folder.state()
    if state is None or not is_alive(state.pid, state.created):
        return False
    with contextlib.suppress(OSError):  # on a full disk the run stops without the reason
        folder.ask_to_stop(reason or folder.stop_reason() or ON_REQUEST)
    try:
        os.kill(state.pid, signal.SIGTERM)
    except ProcessLookupError:
        return False
    return True


def was_seen(end: RunEnd) -> bool:
    """Return whether a supervisor has observed this end: only then there is an exit code."""
    return end.exit_code is not None


def end_lost_run(connection: Connection, folder: RunFolder, why: str | None = None) -> RunEnd:
    """End a run without a supervisor, with all of its processes, and record its end. Idempotent.

    The end is now if a process was still alive, else the last sign of life. A run that was never released ends as
    ``stopped``, because nothing has failed. `why` is the batch system's reason, if known.
    """
    killed = end_processes(folder.run_id)
    end_container_of(folder)
    end = folder.end()
    if end is None:
        state = folder.state()
        now = time.time()
        if state is None or state.started_at is None:
            end = unseen_end("stopped", now, now, "it was stopped before it began")
        else:
            last_sign = None if killed else runs.last_sign_of_life(connection, folder.run_id)
            what = "its processes were ended" if killed else "its processes had ended"
            reason = why or f"{VANISHED}, and {what}"
            end = unseen_end("failed", state.started_at, max(state.started_at, last_sign or now), reason)
        if folder.path.exists():
            folder.write_end(end)
    runs.end_run(connection, folder.run_id, end)
    return end


def unseen_end(status: str, started_at: float, ended_at: float, reason: str) -> RunEnd:
    """Return an end that no supervisor has observed, without the kernel's accounting of its processes."""
    return RunEnd(
        status=status,
        started_at=started_at,
        ended_at=ended_at,
        exit_code=None,
        reason=reason,
        cpu_seconds=0.0,
        read_bytes=0,
        written_bytes=0,
        max_rss_bytes=0,
    )
