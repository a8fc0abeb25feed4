"""Cost of scheduling: empty scripts, as workloads in a row and as runs of one workload.

The stack is up, so its start costs nothing here. A file's time lasts until its last script starts: at the end the command
waits for the last samples, once for all workloads. ``workload_seconds`` is the cost of a workload beyond the bare command,
from files of few and of more workloads; ``extra_run_seconds`` the cost of each further run of a workload, likewise, and
``extra_run_cpu_seconds`` its CPU time, which other load on the machine affects less: of the command, its supervisors and the runs;
``start_spread_seconds`` the time between the starts of one workload's first and last process, by their own clocks.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

__all__ = ["measure"]

WORKLOADS = (1, 6)
RUNS = (1, 5)
ROUNDS = 3
_SCRIPT = "import time\nprint(time.time())\n"


def measure() -> dict[str, float | str]:
    """Return the costs of workloads and runs in seconds, medians of some rounds."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        scheduling = _Scheduling(Path(folder))
        scheduling.bench("up")
        try:
            scheduling.timed([1])  # the first schedule after the start of a stack is slower
            workloads, runs, cpu, spreads = [], [], [], []
            for _ in range(ROUNDS):
                few, more = (scheduling.timed([1] * count)[0] for count in WORKLOADS)
                workloads.append((more - few) / (WORKLOADS[1] - WORKLOADS[0]))
                few_runs, more_runs = (scheduling.timed([count]) for count in RUNS)
                wall, used = ((b - a) / (RUNS[1] - RUNS[0]) for a, b in zip(few_runs, more_runs, strict=True))
                runs.append(wall)
                cpu.append(used)
                spreads.append(scheduling.spread())
            bare = statistics.median(scheduling.bare() for _ in range(2 * ROUNDS))
        finally:
            scheduling.bench("down")
    return {
        "workload_seconds": statistics.median(workloads) - bare,
        "extra_run_seconds": statistics.median(runs),
        "extra_run_cpu_seconds": statistics.median(cpu),
        "start_spread_seconds": max(spreads),
        "bare_seconds": bare,
    }


class _Scheduling:
    """``BENCH_HOME`` with experiment files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._script = folder / "empty.py"
        self._script.write_text(_SCRIPT)
        self._experiment = 0
        others = {name: value for name, value in os.environ.items() if not name.startswith(("BENCH_", "MLFLOW_"))}
        self._environment = {**others, "BENCH_HOME": str(folder / "home")}

    def bench(self, *words: str) -> None:
        """Run the command to its end."""
        done = subprocess.run(
            [sys.executable, "-m", "hypergauge.cli", *words], env=self._environment, cwd=self._folder, capture_output=True,
            check=False,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(done.stderr.decode())

    def timed(self, runs: Sequence[int]) -> tuple[float, float]:
        """Schedule a file with a workload for each number of runs in `runs`.

        Return the seconds until the last script starts, and the CPU seconds of the command and its processes.
        """
        self._experiment += 1
        rows = [
            f"{self._experiment},{workload},{self._script}"
            for workload, count in enumerate(runs, 1)
            for _ in range(count)
        ]
        file = self._folder / f"{self._experiment}.csv"
        file.write_text("\n".join(["Experiment,Workload,File", *rows]) + "\n")
        began, used = time.time(), _children()
        self.bench("schedule", str(file))
        return max(self._starts(sum(runs))) - began, _children() - used

    def spread(self) -> float:
        """Return the time between first and last start of the newest workload's processes."""
        starts = self._starts(RUNS[1])
        return max(starts) - min(starts)

    def _starts(self, count: int) -> list[float]:
        """Return the Unix times at which the scripts of the newest runs started."""
        newest = sorted((self._folder / "home" / "runs").iterdir(), key=lambda run: run.stat().st_ctime)[-count:]
        return [float((run / "output.log").read_text()) for run in newest]

    def bare(self) -> float:
        """Return the duration of the bare command in seconds."""
        began = time.perf_counter()
        subprocess.run([sys.executable, str(self._script)], check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - began


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
