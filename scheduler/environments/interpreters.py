"""Python interpreters of this host, and virtual environments."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from hypergauge.scheduler.environments.base import RunEnvironment, in_front_of_path

__all__ = ["Interpreter", "VirtualEnvironment"]


class Interpreter(RunEnvironment):
    """Interpreter by path; by default the interpreter of this process."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path

    def problem(self) -> str | None:
        """See `RunEnvironment.problem`."""
        missing = self._path is not None and not self._path.is_file()
        return f"there is no interpreter {self._path}" if missing else None

    def python(self) -> str:
        """See `RunEnvironment.python`."""
        return str(self._path or sys.executable)


class VirtualEnvironment(RunEnvironment):
    """Virtual environment: the first of `folders` that has ``bin/python``."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders

    def problem(self) -> str | None:
        """See `RunEnvironment.problem`."""
        if self._found() is not None:
            return None
        looked = " or ".join(str(path) for path in self._folders)
        return f"there is no virtual environment in {looked}: it has no bin/python"

    def python(self) -> str:
        """See `RunEnvironment.python`."""
        return f"{self._found()}/bin/python"

    def variables(self) -> Mapping[str, str]:
        """Return the variables that its ``activate`` sets."""
        folder = self._found()
        assert folder is not None
        return {"VIRTUAL_ENV": str(folder), "PATH": in_front_of_path(folder / "bin")}

    def _found(self) -> Path | None:
        return next((folder for folder in self._folders if (folder / "bin" / "python").is_file()), None)
