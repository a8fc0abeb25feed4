"""Registry of profilers, and checks of their combinations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from hypergauge.core.files.run_folder import RunFolder
from hypergauge.scheduler.profilers.base import Profiler
from hypergauge.scheduler.profilers.nsight import Ncu, Nsys
from hypergauge.scheduler.profilers.perf import Perf
from hypergauge.scheduler.profilers.perf_record import PerfRecord
from hypergauge.scheduler.profilers.py_spy import LIVE_REPORT, PySpy
from hypergauge.scheduler.profilers.pytorch import Torch
from hypergauge.scheduler.profilers.word import split_word

__all__ = ["PROFILERS", "RELAY", "around", "notes", "problems", "wrapped", "written_reports"]

# From the inside out, so that perf counts only the command and not an outer profiler.
PROFILERS: dict[str, Profiler] = {one.name: one for one in (Torch(), Perf(), PerfRecord(), PySpy(), Nsys(), Ncu())}
# These read the GPU through the same driver interface, which allows one client at a time.
_OF_THE_GPU = ("nsys", "ncu", "torch")
RELAY = Path(__file__).with_name("relay.py")


def problems(words: Sequence[str], python: str | None, *, script: bool, here: bool = True) -> Iterator[str]:
    """Yield the reasons why profilers cannot wrap a run.

    Parameters
    ----------
    words
        Names of profilers, with options if wanted.
    python
        Interpreter of the run on this host; ``None`` if it has none, as in a container.
    script
        Whether the run is a script of this interpreter.
    here
        Whether the run is for this host. Another one may have other counters, and checks its options itself.
    """
    chosen = dict(map(split_word, words))
    for name, options in chosen.items():
        profiler = PROFILERS[name]
        if invalid := profiler.option_problem(options):
            yield invalid
        if name == "torch" and not script:
            yield "torch wraps a Python script, and there is none"
        elif python is None:
            if problem := profiler.container_problem():
                yield problem
        elif problem := profiler.problem(python) or (profiler.host_problem(options) if here and not invalid else None):
            yield problem
    together = [name for name in chosen if name in _OF_THE_GPU]
    if len(together) > 1:
        yield f"{' and '.join(together)} exclude each other: a GPU supports one profiler at a time"


def notes(words: Sequence[str]) -> Iterator[str]:
    """Yield what profilers without `problems` do not give on this host."""
    for name, options in map(split_word, words):
        yield from PROFILERS[name].notes(options)


def around(names: str) -> str:
    """Return the profilers of ``+``-joined `names` that run around the command and not inside it."""
    return "+".join(name for word in names.split("+") if (name := split_word(word)[0]) and name != "torch")


def wrapped(words: Sequence[str], chosen: Mapping[str, Mapping[str, str]], folder: RunFolder, python: str) -> list[str]:
    """Return the command line that runs `words` under profilers without `problems`.

    Parameters
    ----------
    chosen
        Options by profiler.
    python
        Interpreter of the relay between them and the command.
    """
    command = list(words)
    if "torch" in chosen:
        command = PROFILERS["torch"].wrap(command, folder.path, chosen["torch"])
    outer = [profiler for name, profiler in PROFILERS.items() if name in chosen and name != "torch"]
    if outer:
        for profiler in outer:
            command = profiler.inside(command)
        command = [python, "-IS", str(RELAY), str(folder.path), *command]
        for profiler in outer:
            command = profiler.wrap(command, folder.path, chosen[profiler.name])
    return command


def written_reports(folder: RunFolder) -> list[Path]:
    """Return the reports and logs of profilers in a run's folder, without empty files."""
    left = [folder.path / profiler.report for profiler in PROFILERS.values()]
    live = sorted(folder.path.glob(LIVE_REPORT.format("*")))
    return [path for path in (*left, *live, folder.profiler_log) if path.is_file() and path.stat().st_size]
