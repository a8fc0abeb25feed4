"""How a row becomes a process: its words, its variables, and the client laid out for it."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from bench.runfolder import write_atomically

__all__ = ["Command", "client_folder", "command_for", "run_environment"]


@dataclass(frozen=True, slots=True)
class Command:
    """What is to be executed: the words, the folder, and the variables that its environment adds."""

    words: tuple[str, ...]
    directory: Path
    variables: Mapping[str, str]


def command_for(script: Path, params: list[str], python: Path | None) -> Command:
    """Return the command of a script in this interpreter, or in that of the virtual environment of `python`."""
    variables: dict[str, str] = {}
    if python is not None:
        environment = python.parent.parent
        variables["VIRTUAL_ENV"] = str(environment)
        variables["PATH"] = os.pathsep.join([str(python.parent), os.environ.get("PATH", os.defpath)])
    return Command((str(python or sys.executable), str(script), *params), Path.cwd(), variables)


def client_folder(home: Path) -> Path:
    """Return a folder that holds the client and nothing else; made where it is missing.

    Named by its content, so that a running training keeps the client it began with when the package is updated.
    """
    source = files("bench").joinpath("client.py").read_bytes()
    folder = home / "client" / hashlib.sha256(source).hexdigest()[:12]
    if not (folder / "bench.py").exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / "bench.py", source, 0o644)
    return folder


def run_environment(base: Mapping[str, str], additions: Mapping[str, str], client: Path) -> dict[str, str]:
    """Return the variables of a run: those of the shell, its own, and the client in front of its ``PYTHONPATH``."""
    path = os.pathsep.join(filter(None, [str(client), base.get("PYTHONPATH")]))
    # Unbuffered, so that output shows while the run goes on, and what a killed run had printed is there.
    return {"PYTHONUNBUFFERED": "1", **base, **additions, "PYTHONPATH": path}
