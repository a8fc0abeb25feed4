"""Base class of profilers. A profiler wraps a command and leaves a file in the run's folder."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

__all__ = ["MARK", "Profiler"]

# In the environment of profilers, and taken out of that of the command: so they are told apart when the run is ended.
MARK = "BENCH_PROFILERS"


class Profiler:
    """A profiler that wraps a run.

    Attributes
    ----------
    name
        The word for it in the cell ``Listeners``.
    report
        The file that it leaves in the run's folder.
    install
        The command that installs it.
    """

    name: ClassVar[str]
    report: ClassVar[str]
    install: ClassVar[str]

    @property
    def program(self) -> str:
        """Where its program is, by the shell's ``PATH`` and not the environment's."""
        return shutil.which(self.name) or self.name

    def problem(self, python: str) -> str | None:
        """Return why it cannot be used on this host, with the command that mends that; ``None`` where it can.

        Parameters
        ----------
        python
            The run's interpreter.
        """
        del python
        return None if shutil.which(self.name) else f"there is no program {self.name} in PATH: {self.install}"

    def wrap(self, words: Sequence[str], folder: Path) -> list[str]:
        """Return the command line that runs `words` under it, and leaves its report in `folder`."""
        raise NotImplementedError
