"""Command of a run under profilers, on this host or inside its container."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace

from hypergauge.core.files.run_folder import RunFolder
from hypergauge.scheduler.environments.containers import Mount
from hypergauge.scheduler.launch.launch import Command
from hypergauge.scheduler.profilers import MARK, PROFILERS, RELAY, wrapped

__all__ = ["profiled"]


def profiled(command: Command, chosen: Mapping[str, Mapping[str, str]], folder: RunFolder) -> Command:
    """Return a command under profilers, with their options by name; in a container they run inside of it."""
    container = command.container
    if container is None:
        return replace(command, words=tuple(wrapped(command.words, chosen, folder, sys.executable)))
    files = [path for name in chosen for path in PROFILERS[name].files()]
    if not chosen.keys() <= {"torch"}:
        # The supervisor gives the mark its value, and docker passes it on.
        files, container = [*files, RELAY], replace(container, inherited=(*container.inherited, MARK))
    return replace(
        command,
        words=tuple(wrapped(command.words, chosen, folder, command.python or "python")),
        container=replace(container, mounts=(*container.mounts, *(Mount(path, read_only=True) for path in files))),
    )
