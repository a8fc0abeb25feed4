"""Shutdown of the local stack."""

from __future__ import annotations

import contextlib

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest, BenchError
from hypergauge.core.files.run_folder import RunFolder
from hypergauge.core.listing import counted
from hypergauge.core.services import Stack
from hypergauge.core.system.polling import wait_until
from hypergauge.scheduler.supervision import is_delivering, is_running
from hypergauge.sql.server.database import Database

__all__ = ["shut_down", "shut_down_unused"]

# Longest wait for supervisors that deliver artifacts; the next run delivers the rest.
_DELIVERY_SECONDS = 10.0


def shut_down(settings: Settings, *, force: bool) -> list[str]:
    """Stop all services, and return their names.

    Raises
    ------
    BadRequest
        Runs are running. With `force` they continue unmeasured.
    """
    stack = Stack(settings)
    running = [_label(folder) for folder in RunFolder.all(settings.runs_dir) if is_running(folder)]
    if running and not force:
        one = len(running) == 1
        raise BadRequest(
            f"{counted(len(running), 'run')} {'is' if one else 'are'} running ({', '.join(running)}); "
            f"`bench stop` ends {'it' if one else 'them'}, --force leaves {'it' if one else 'them'} running"
        )
    stack.keep(False)
    wait_until(lambda: not any(is_delivering(one) for one in RunFolder.all(settings.runs_dir)), _DELIVERY_SECONDS)
    with contextlib.ExitStack() as held:
        if "collector" in stack.services():  # which writes its last samples while it ends
            database = Database(settings)
            held.callback(database.close)
            with contextlib.suppress(BenchError):
                database.hold()
        names: list[str] = []
        # Exclusively, because a command that holds the stack restarts dead services.
        stack.exclusively(lambda: names.extend(stack.stop_all()))
    return names


def _label(folder: RunFolder) -> str:
    try:
        return str(folder.spec()["label"])
    except (OSError, ValueError, KeyError):
        return folder.run_id[:8]


def shut_down_unused(settings: Settings) -> None:
    """Stop a stack whose command was killed, unless runs of another command still need it."""
    stack = Stack(settings)
    if stack.services() and not any(is_running(folder) for folder in RunFolder.all(settings.runs_dir)):
        stack.stop_unheld()
