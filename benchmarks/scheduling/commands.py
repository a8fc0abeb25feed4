"""Duration of commands as whole processes, with hardly any data.

``run_seconds``, ``list_seconds`` and ``help_seconds`` are with the stack up, ``finished_seconds`` is scheduling a finished
file while nothing runs. Each is the median of some rounds, with ``_least`` their minimum. ``_cpu`` is the CPU time of the
command and its child processes, which other load on the machine affects less. Python's compiled files exist, as after any
first call.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["measure"]

ROUNDS = 7
_FILE = "Experiment,Workload,File,Status\n1,1,train.py,finished\n1,2,train.py,failed\n"


def measure() -> dict[str, float | str]:
    """Return the durations of commands in seconds."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        (folder / "done.csv").write_text(_FILE)
        (folder / "train.py").touch()
        others = {name: value for name, value in os.environ.items() if not name.startswith(("BENCH_", "MLFLOW_"))}
        others.pop("PYTHONDONTWRITEBYTECODE", None)
        environment = {**others, "BENCH_HOME": str(folder / "home")}
        results = _timed("finished", ["schedule", "done.csv"], folder, environment)
        _bench(["up"], folder, environment)
        try:
            for words in (["--help"], ["list"], ["run", "--", "true"]):
                results |= _timed(words[0].strip("-"), words, folder, environment)
        finally:
            _bench(["down"], folder, environment)
    return results


def _timed(name: str, words: Sequence[str], folder: Path, environment: Mapping[str, str]) -> dict[str, float | str]:
    _bench(words, folder, environment)
    walls, cpus = zip(*(_bench(words, folder, environment) for _ in range(ROUNDS)), strict=True)
    return {
        f"{name}_seconds": statistics.median(walls),
        f"{name}_seconds_least": min(walls),
        f"{name}_seconds_cpu": statistics.median(cpus),
    }


def _bench(words: Sequence[str], folder: Path, environment: Mapping[str, str]) -> tuple[float, float]:
    """Run the command to its end; return elapsed seconds and CPU seconds."""
    before, began = _children(), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "hypergauge.cli", *words], env=environment, cwd=folder, capture_output=True, check=False
    )
    taken = time.perf_counter() - began
    if done.returncode:
        raise RuntimeError(done.stderr.decode())
    return taken, _children() - before


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
