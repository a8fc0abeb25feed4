"""Base class of profilers. A profiler wraps a command and writes a report into the run's folder."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from hypergauge.core.calls import Call
from hypergauge.core.errors import did_you_mean
from hypergauge.scheduler.profilers.reports.stacks import Phases, Recording

__all__ = ["Profiler"]


class Profiler:
    """Profiler that wraps a run.

    Attributes
    ----------
    name
        Name in the column ``Listeners``.
    report
        File name of its report in the run's folder.
    install
        Command that installs it.
    options
        Pattern of the value by option.
    """

    name: ClassVar[str]
    report: ClassVar[str]
    install: ClassVar[str]
    options: ClassVar[Mapping[str, str]] = {}

    @property
    def program(self) -> str:
        """Path of its program, by the ``PATH`` of the shell and not of the run's environment."""
        return shutil.which(self.name) or self.name

    def problem(self, python: str) -> str | None:
        """Return the reason why it does not work on this host, with the command that fixes it; ``None`` if it works.

        Parameters
        ----------
        python
            Interpreter of the run.
        """
        del python
        return None if shutil.which(self.name) else f"there is no program {self.name} in PATH: {self.install}"

    def container_problem(self) -> str | None:
        """Return the reason why it does not work in a container of this host; ``None`` if it works."""
        return f"{self.name} cannot profile inside a container"

    def files(self) -> list[Path]:
        """Return the files and folders of this host that it needs in a container."""
        return []

    def option_problem(self, options: Mapping[str, str]) -> str | None:
        """Return why options are invalid; ``None`` if they are valid."""
        for key, value in options.items():
            if key not in self.options:
                known = did_you_mean(key, self.options) if self.options else ": it has none"
                return f"{self.name} has no option {key!r}{known}"
            pattern = self.options[key]
            if not re.fullmatch(pattern, value):
                words = pattern.split("|") if re.fullmatch(r"[a-z|-]+\|[a-z|-]+", pattern) else []
                return f"the option {key} of {self.name} cannot be {value!r}{did_you_mean(value, words)}"
        return None

    def host_problem(self, options: Mapping[str, str]) -> str | None:
        """Return why valid options cannot be used on this host, where the profiler works; ``None`` if they can."""
        del options
        return None

    def notes(self, options: Mapping[str, str]) -> Iterator[str]:
        """Yield what usable options do not give on this host, for the preview of a schedule."""
        del options
        yield from ()

    def inside(self, words: Sequence[str]) -> list[str]:
        """Return the command line that the relay runs in place of `words`; by default these."""
        return list(words)

    def wrap(self, words: Sequence[str], folder: Path, options: Mapping[str, str]) -> list[str]:
        """Return the command line that runs `words` under the profiler, with its report in `folder`."""
        raise NotImplementedError

    def calls(self, report: Path) -> list[Call]:
        """Return the calls of a report with Unix times; none for a profiler that records none. It raises as `read` does."""
        del report
        return []

    def read(self, report: Path, phases: Phases) -> Recording | None:
        """Return the stacks of a report; ``None`` for a profiler whose report has none.

        Parameters
        ----------
        phases
            Phases of the run.

        Raises
        ------
        UnreadableReport
            The report is truncated, or of another format.
        OSError
            The report cannot be read.
        """
        del report, phases
        return None
