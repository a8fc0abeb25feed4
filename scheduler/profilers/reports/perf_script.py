"""Samples of ``perf record``, as ``perf script`` prints them: stacks of native code, of the kernel and of Python.

Python 3.12 and newer names its own functions to perf (``py::NAME:FILE``) where it is started with ``-X perf``.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from hypergauge.scheduler.profilers.reports.stacks import Phases, Recording, Stack, UnreadableReport
from hypergauge.sql.ingest.limits import LATEST, is_time

__all__ = ["read_printed", "read_samples"]

_CONVERSION_SECONDS = 600.0
_FIELDS = "comm,pid,tid,time,ip,sym,dso"
_RATE = re.compile(r"\{ sample_period, sample_freq \} = (\d+)")
_OFFSET = re.compile(r"# reference time: .* = (\d+\.\d+) \(TOD\) = (\d+\.\d+) \(\w+\)")
_SAMPLE = re.compile(r"\S.*\s\d+/\d+\s+(\d+\.\d+):\s*$")
_FRAME = re.compile(r"\s+[0-9a-f]+ (.+) \((.*)\)")
# After the path of a library that was replaced during the run.
_DELETED = " (deleted)"
_UNKNOWN = "[unknown]"
_PYTHON = "py::"


def read_samples(program: str, report: Path, phases: Phases) -> Recording:
    """Return the stacks of a report, which `program` prints.

    Raises
    ------
    UnreadableReport
        perf refuses the report, or takes too long.
    """
    # Inlined functions would start a program for each address. The report may be another user's, as of a container.
    words = [program, "script", "--header", "--no-inline", "--ns", "--force", "-F", _FIELDS, "-i", str(report)]
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            words, env={**os.environ, "LC_ALL": "C"}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
            text=True, encoding="utf-8", errors="replace",
        ) as printing,
    ):  # fmt: skip
        assert printing.stdout is not None
        limit = threading.Timer(_CONVERSION_SECONDS, printing.kill)
        limit.start()
        try:
            found = _Samples(phases)
            found.add_all(printing.stdout)
            status = printing.wait()
        except BaseException:
            printing.kill()
            raise
        finally:
            limit.cancel()
        if status:
            errors.seek(0)
            lines = errors.read().decode(errors="replace").strip().splitlines() or ["it was ended"]
            raise UnreadableReport(f"perf cannot print it: {lines[-1].strip()}")
    return found.recording()


def read_printed(lines: Iterable[str], phases: Phases) -> Recording:
    """Return the stacks of what ``perf script --header`` prints; raise as `read_samples` does."""
    found = _Samples(phases)
    found.add_all(lines)
    return found.recording()


@dataclass(slots=True)
class _Samples:
    """Numbers of samples by stack and phase.

    Attributes
    ----------
    rate
        Samples per second; ``None`` before the header.
    offset
        Unix time at 0 of the samples' clock; ``None`` if the header has none.
    """

    phases: Phases
    rate: float | None = None
    offset: float | None = None
    first: float | None = None
    last: float | None = None
    skipped: int = 0
    native: Counter[tuple[tuple[str, ...], str]] = field(default_factory=Counter)
    python: Counter[tuple[tuple[str, ...], str]] = field(default_factory=Counter)
    _frames: list[tuple[str, str]] | None = None

    def add_all(self, lines: Iterable[str]) -> None:
        """Add all lines: of the header, the head of each sample, and its frames."""
        for line in map(str.rstrip, lines):
            if line.startswith("#"):
                self._add_header(line)
            elif sample := _SAMPLE.fullmatch(line):
                self._count()
                if (time := float(sample[1])) >= LATEST:
                    self.skipped += 1
                    continue
                self.last = time
                self.first = self.last if self.first is None else self.first
                self._frames = []
            elif self._frames is not None and (frame := _FRAME.fullmatch(line.replace(_DELETED, ""))):
                self._frames.append((frame[1], frame[2]))
        self._count()

    def recording(self) -> Recording:
        """Return the stacks; raise UnreadableReport without a rate."""
        if not self.rate:
            raise UnreadableReport("perf prints no rate of its samples")
        counts = [("native", self.native), ("function", self.python)]
        stacks = [
            Stack(kind, frames, phase, None, count / self.rate)
            for kind, found in counts
            for (frames, phase), count in found.items()
        ]
        return Recording(stacks, self._unix(self.first), self._unix(self.last), self.rate, self.skipped)

    def _count(self) -> None:
        """Count the sample whose frames were added."""
        if self._frames is not None and self.last is not None:
            time = self._unix(self.last)
            phase = "" if time is None else self.phases.at(time)
            # perf begins with the innermost. A frame that nothing names is a wrong address of code without frame pointers.
            known = [one for one in reversed(self._frames) if one != (_UNKNOWN, _UNKNOWN)]
            self.native[tuple(_name(*one) for one in known) or (_UNKNOWN,), phase] += 1
            if functions := tuple(_name(*one) for one in known if one[0].startswith(_PYTHON)):
                self.python[functions, phase] += 1
        self._frames = None

    def _unix(self, time: float | None) -> float | None:
        unix = None if time is None or self.offset is None else self.offset + time
        return unix if unix is not None and is_time(unix) else None

    def _add_header(self, line: str) -> None:
        if rate := _RATE.search(line):
            self.rate = float(rate[1])
        if (offset := _OFFSET.match(line)) and max(map(float, offset.groups())) < LATEST:
            self.offset = float(offset[1]) - float(offset[2])


def _name(symbol: str, origin: str) -> str:
    """Return the name of a frame, with its file or library in parentheses."""
    if symbol.startswith(_PYTHON):
        function, _, file = symbol.removeprefix(_PYTHON).rpartition(":")
        return f"{function} ({PurePath(file).name})" if function else symbol
    if origin.startswith("["):
        return f"{symbol} ({'kernel' if 'kernel' in origin else origin.strip('[]')})"
    return f"{symbol} ({PurePath(origin).name})"
