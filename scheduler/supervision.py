"""Supervision of runs: is the supervisor alive, and the end of runs without one."""

from __future__ import annotations

import contextlib
import os
import signal
import time

from hypergauge.core.files.run_folder import RunEnd, RunFolder
from hypergauge.core.system.processes import end_run as end_processes
from hypergauge.core.system.processes import is_alive
from hypergauge.scheduler.environments.containers import end_container
from hypergauge.sql.runs import runs
from hypergauge.sql.server.database import Connection

__all__ = [
    "VANISHED",
    "ask_to_stop",
    "end_lost_run",
    "is_delivering",
    "is_running",
    "is_supervised",
    "may_write",
    "unseen_end",
    "was_seen",
]


# How the reason begins of a run that nobody has seen ending, here and in SQL.
VANISHED = "its supervisor vanished"


def is_supervised(folder: RunFolder) -> bool:
    """Return whether the supervisor of a run is alive, on this host."""
    state = folder.state()
    return state is not None and is_alive(state.pid, state.created)


def is_running(folder: RunFolder) -> bool:
    """Return whether a run goes on, on this host: its supervisor is alive, and has not seen its end."""
    return is_supervised(folder) and folder.end() is None


def is_delivering(folder: RunFolder) -> bool:
    """Return whether a run has ended, and its supervisor still delivers what it left."""
    return folder.end() is not None and is_supervised(folder)


def may_write(folder: RunFolder) -> bool:
    """Return whether a run's output may still grow: it has not ended, and it waits for its supervisor or has one."""
    return folder.end() is None and (folder.state() is None or is_supervised(folder))


def ask_to_stop(folder: RunFolder, reason: str | None = None) -> bool:
    """Ask the supervisor of a run on this host to end it; return whether there is one."""
    state = folder.state()
    if state is None or not is_alive(state.pid, state.created):
        return False
    if reason is not None:
        # A full disk, perhaps of what the run has written: it is stopped all the same, and says no more than that.
        with contextlib.suppress(OSError):
            folder.ask_to_stop(reason)
    try:
        os.kill(state.pid, signal.SIGTERM)
    except ProcessLookupError:
        return False
    return True


def was_seen(end: RunEnd) -> bool:
    """Return whether a supervisor has seen this end: then it knows the exit code."""
    return end.exit_code is not None


def end_lost_run(connection: Connection, folder: RunFolder, why: str | None = None) -> RunEnd:
    """End a run whose supervisor is gone, with everything it started, and record that in the supervisor's place.

    `why` is what somebody has said of that who knows.

    It ends now where something of it was still alive, else at its processes' last sign of life. One that was never
    released is ``stopped``, since nothing has failed. Again is harmless.
    """
    killed = end_processes(folder.run_id)
    end_container(folder)
    end = folder.end()
    if end is None:
        state = folder.state()
        now = time.time()
        if state is None or state.started_at is None:
            end = unseen_end("stopped", now, now, "it was stopped before it began")
        else:
            last_sign = None if killed else runs.last_sign_of_life(connection, folder.run_id)
            what = "what it had started was ended" if killed else "what it had started had ended"
            reason = why or f"{VANISHED}, and {what}"
            end = unseen_end("failed", state.started_at, max(state.started_at, last_sign or now), reason)
        if folder.path.exists():
            folder.write_end(end)
    runs.end_run(connection, folder.run_id, end)
    return end


def unseen_end(status: str, started_at: float, ended_at: float, reason: str) -> RunEnd:
    """Return an end that no supervisor has seen."""
    # What its processes used only the exporter knows: it has no kernel's account to correct its own by.
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
