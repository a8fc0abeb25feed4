"""Launch of a run: its command line, its variables, and the client in its ``PYTHONPATH``."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from hypergauge.core.files import private
from hypergauge.core.files.package_data import package_files
from hypergauge.core.files.run_folder import RunFolder, write_atomically
from hypergauge.gpu.vendors import VisibleGpu
from hypergauge.scheduler.environments.containers import Container

__all__ = ["Command", "client_folder", "launched", "run_environment"]

_MPS_PIPES = "CUDA_MPS_PIPE_DIRECTORY"


@dataclass(frozen=True, slots=True)
class Command:
    """Command of a run.

    Attributes
    ----------
    words
        Command line; with a container, the one inside of it.
    directory
        Working directory.
    variables
        Variables that the environment adds to those of the shell.
    python
        Command of the environment's interpreter; ``None`` if unknown.
    container, folders
        Container, and the folders that it mounts besides the working directory.
    shown
        Command line with secrets masked.
    """

    words: tuple[str, ...]
    directory: Path
    variables: Mapping[str, str]
    python: str | None = None
    container: Container | None = None
    folders: tuple[Path, ...] = ()
    shown: str = ""


def client_folder(home: Path) -> Path:
    """Return the folder with the packages ``hypergauge``, of the client alone, and ``radt``; create it if it is missing.

    The folder's name is a hash of its content, so a running training keeps its client when the package is updated.
    """
    sources = dict(_client())
    names = "\0".join(sources).encode()
    folder = home / "client" / hashlib.sha256(b"\0".join([names, *sources.values()])).hexdigest()[:12]
    for name, source in sources.items():
        if not (folder / name).exists():
            private.make_folder((folder / name).parent)
            write_atomically(folder / name, source)
    return folder


def _client() -> Iterator[tuple[str, bytes]]:
    """Yield the files that runs can import, by path in the client folder."""
    yield "hypergauge/__init__.py", files("hypergauge").joinpath("__init__.py").read_bytes()
    for path, file in package_files("hypergauge", "client"):
        if path == "radt.py":
            yield "radt/__init__.py", file.read_bytes()
        elif path.endswith(".py"):
            yield f"hypergauge/client/{path}", file.read_bytes()


def run_environment(base: Mapping[str, str], additions: Mapping[str, str], client: Path) -> dict[str, str]:
    """Return the variables of a run: the shell's and its own, with the client first in ``PYTHONPATH``."""
    path = os.pathsep.join(filter(None, [str(client), base.get("PYTHONPATH")]))
    # Unbuffered output is visible during the run, and survives if the run is killed.
    return {"PYTHONUNBUFFERED": "1", **base, **additions, "PYTHONPATH": path}


def launched(
    command: Command,
    folder: RunFolder,
    *,
    shell: Mapping[str, str],
    additions: Mapping[str, str],
    client: Path,
    gpus: Sequence[VisibleGpu],
    with_input: bool = False,
) -> tuple[list[str], dict[str, str]]:
    """Return the command line that starts a run, and its variables.

    Parameters
    ----------
    shell
        Variables of the shell. A container gets none of them, because it has another file system.
    additions
        Variables of the run.
    gpus
        Real GPUs and MIG instances that a container sees.
    with_input
        Whether the run has a standard input.
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
        with_input=with_input,
    ), {**shell, **container.taken(inside)}
