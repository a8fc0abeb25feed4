"""``perf stat``: CPU counters of a command and its children, once per second."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from hypergauge.core.errors import did_you_mean
from hypergauge.core.files.run_folder import RunFolder
from hypergauge.scheduler.profilers.base import Profiler
from hypergauge.scheduler.profilers.perf_events import EVENTS, PRESETS, Alternative, Part
from hypergauge.scheduler.profilers.perf_trial import FORMAT, Answer, answer, event_names, refusal

__all__ = ["INSTALL", "Perf"]

INSTALL = "sudo apt-get install linux-perf (on Ubuntu linux-tools-generic)"
_DEFAULT = "default"
_UNSUPPORTED = "the processor lacks the counters, a virtual machine hides them, or they are not of single processes"
# Modes that may follow an event: user, kernel, hypervisor, guest, host, precise.
_MODES = re.compile(r":[ukhIGHpPSDWeb]+$")


class Perf(Profiler):
    """``perf stat`` with an interval of 1 s. The exporter ``process`` reads its file during the run.

    The option ``preset`` names presets, and ``events`` further events of perf; the preset ``default`` is counted where
    neither is given.
    """

    name = "perf"
    report = RunFolder.PERF
    install = INSTALL
    options: ClassVar[Mapping[str, str]] = {"preset": r"[\w-]+(,[\w-]+)*", "events": r"[\w.:/-]+(,[\w.:/-]+)*"}

    def problem(self, python: str) -> str | None:
        """See `Profiler.problem`; also try a short count, and return its error."""
        return super().problem(python) or refusal(self.program, "stat", *FORMAT, "-e", ",".join(EVENTS))

    def option_problem(self, options: Mapping[str, str]) -> str | None:
        """See `Profiler.option_problem`; also name the nearest preset."""
        if invalid := super().option_problem(options):
            return invalid
        for name in _words(options, "preset"):
            if name not in PRESETS:
                return f"perf has no preset {name!r}{did_you_mean(name, PRESETS)}"
        for event in _words(options, "events"):
            if _MODES.search(event):
                return f"perf cannot count {event!r}: leave out {_MODES.findall(event)[0]!r}, all modes are counted"
        return None

    def host_problem(self, options: Mapping[str, str]) -> str | None:
        """See `Profiler.host_problem`: an event that perf does not count here, or a preset of such events."""
        for event in _words(options, "events"):
            match answer(self.program, event):
                case Answer.UNKNOWN:
                    near = did_you_mean(event, event_names(self.program), ": `perf list` shows those of this host")
                    return f"perf has no event {event!r}{near}"
                case Answer.UNSUPPORTED:
                    return f"perf cannot count {event!r} of a run here: {_UNSUPPORTED}"
        for name in _words(options, "preset"):
            if not any(self._chosen(part) for part in PRESETS[name]):
                return f"perf counts nothing of the preset {name} here: {_UNSUPPORTED}"
        return None

    def notes(self, options: Mapping[str, str]) -> Iterator[str]:
        """See `Profiler.notes`: the parts of chosen presets that perf does not count here."""
        for name in self._presets(options):
            lacking = []
            for part in PRESETS[name]:
                chosen = self._chosen(part)
                lacking += [part.name] if chosen is None else [chosen.lacks] if chosen.lacks else []
            if lacking:
                yield f"of the preset {name}, perf does not count {', '.join(lacking)} here"

    def wrap(self, words: Sequence[str], folder: Path, options: Mapping[str, str]) -> list[str]:
        """Return the command line of ``perf stat``."""
        events = ",".join(self._events(options))
        return [
            self.program, "stat", "-I", "1000", *FORMAT, "-e", events, "-o", str(folder / self.report), "--", *words
        ]  # fmt: skip

    def _events(self, options: Mapping[str, str]) -> Sequence[str]:
        parts = [part for name in self._presets(options) for part in PRESETS[name]]
        found = [chosen.events for part in parts if (chosen := self._chosen(part))]
        # perf refuses to count nothing, and says itself why it counts no event.
        return list(dict.fromkeys([*found, *_words(options, "events")])) or EVENTS

    @staticmethod
    def _presets(options: Mapping[str, str]) -> list[str]:
        return _words(options, "preset") if options else [_DEFAULT]

    def _chosen(self, part: Part) -> Alternative | None:
        """Return the first alternative of a part that perf counts here; ``None`` for none."""
        return next((one for one in part.alternatives if answer(self.program, one.events) is Answer.COUNTED), None)


def _words(options: Mapping[str, str], name: str) -> list[str]:
    return options[name].split(",") if name in options else []
