"""Launch of a run: its command line, its variables, and the client in its ``PYTHONPATH``."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from hypergauge.core.files import private
from hypergauge.core.files.run_folder import RunFolder, write_atomically
from hypergauge.scheduler.environments.containers import Container

__all__ = ["Command", "client_folder", "launched", "run_environment"]

# What runs can import, by what it is there.
_CLIENT = {"hypergauge.py": "track.py", "radt/__init__.py": "radt.py"}
_MPS_PIPES = "CUDA_MPS_PIPE_DIRECTORY"


@dataclass(frozen=True, slots=True)
class Command:
    """Command to be executed.

    Attributes
    ----------
    words
        The command line; that inside of the container, where there is one.
    directory
        The working directory.
    variables
        What the environment adds to the shell's.
    python
        The word that starts the environment's interpreter; ``None`` where nobody knows of one.
    container, folders
        How its container is started, and which folders it sees besides the working directory.
    shown
        The command line as it may be recorded and shown.
    """

    words: tuple[str, ...]
    directory: Path
    variables: Mapping[str, str]
    python: str | None = None
    container: Container | None = None
    folders: tuple[Path, ...] = ()
    shown: str = ""


def client_folder(home: Path) -> Path:
    """Return a folder that holds the client, and the one for scripts of radT's, and nothing else; made where it is missing.

    Named by its content, so that a running training keeps the client it began with when the package is updated.
    """
    sources = {laid: files("hypergauge.client").joinpath(name).read_bytes() for laid, name in _CLIENT.items()}
    folder = home / "client" / hashlib.sha256(b"".join(sources.values())).hexdigest()[:12]
    for laid, source in sources.items():
        if not (folder / laid).exists():
            private.make_folder((folder / laid).parent)
            write_atomically(folder / laid, source)
    return folder


def run_environment(base: Mapping[str, str], additions: Mapping[str, str], client: Path) -> dict[str, str]:
    """Return the variables of a run: those of the shell, its own, and the client in front of its ``PYTHONPATH``."""
    path = os.pathsep.join(filter(None, [str(client), base.get("PYTHONPATH")]))
    # Unbuffered, so that output shows while the run goes on, and what a killed run had printed is there.
    return {"PYTHONUNBUFFERED": "1", **base, **additions, "PYTHONPATH": path}


def launched(
    command: Command,
    folder: RunFolder,
    *,
    shell: Mapping[str, str],
    additions: Mapping[str, str],
    client: Path,
    gpus: Sequence[str],
) -> tuple[list[str], dict[str, str]]:
    """Return the command line that starts a run, and the variables that it is started with.

    Parameters
    ----------
    shell
        The variables of the shell. A container gets none of them: they are about another file system.
    additions
        The run's own.
    gpus
        UUIDs of the GPUs and instances that a container is to see; real ones.
    """
    container = command.container
    if container is None:
        return list(command.words), run_environment(shell, additions, client)
    inside = {"PYTHONUNBUFFERED": "1", **additions, "PYTHONPATH": str(client)}
    pipes = [Path(inside[_MPS_PIPES])] if _MPS_PIPES in inside else []
    return container.start(
        command.words,
        run_id=folder.run_id,
        directory=command.directory,
        folders=[client, folder.path, *command.folders, *pipes],
        variables=inside,
        gpus=gpus,
    ), {**shell, **container.taken(inside)}
