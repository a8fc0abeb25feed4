"""Cost of scheduling: empty scripts, as workloads in a row and as runs of one workload.

All on a stack that is up, so that starting it counts to nobody. ``workload_seconds`` is what a workload takes over the bare
command, from files of few and of more workloads; ``extra_run_seconds`` what each further run of a workload adds, likewise;
``start_spread_seconds`` how far apart the processes of one workload begin, by their own clocks.
"""

from __future__ import annotations

import os
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
    """Return the seconds that workloads and runs cost, medians of some rounds."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        scheduling = _Scheduling(Path(folder))
        scheduling.bench("up")
        try:
            scheduling.timed([1])  # the first one after the start of a stack
            workloads, runs, spreads = [], [], []
            for _ in range(ROUNDS):
                few, more = (scheduling.timed([1] * count) for count in WORKLOADS)
                workloads.append((more - few) / (WORKLOADS[1] - WORKLOADS[0]))
                few, more = (scheduling.timed([count]) for count in RUNS)
                runs.append((more - few) / (RUNS[1] - RUNS[0]))
                spreads.append(scheduling.spread())
            bare = statistics.median(scheduling.bare() for _ in range(2 * ROUNDS))
        finally:
            scheduling.bench("down")
    return {
        "workload_seconds": statistics.median(workloads) - bare,
        "extra_run_seconds": statistics.median(runs),
        "start_spread_seconds": max(spreads),
        "bare_seconds": bare,
    }


class _Scheduling:
    """One ``BENCH_HOME``, and experiment files in it."""

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

    def timed(self, runs: Sequence[int]) -> float:
        """Schedule a file that has a workload of so many runs for each of `runs`; return the seconds that it took."""
        self._experiment += 1
        rows = [
            f"{self._experiment},{workload},{self._script}"
            for workload, count in enumerate(runs, 1)
            for _ in range(count)
        ]
        file = self._folder / f"{self._experiment}.csv"
        file.write_text("\n".join(["Experiment,Workload,File", *rows]) + "\n")
        began = time.perf_counter()
        self.bench("schedule", str(file))
        return time.perf_counter() - began

    def spread(self) -> float:
        """Return how far apart the processes of the newest workload began."""
        newest = sorted((self._folder / "home" / "runs").iterdir(), key=lambda run: run.stat().st_ctime)[-RUNS[1] :]
        starts = [float((run / "output.log").read_text()) for run in newest]
        return max(starts) - min(starts)

    def bare(self) -> float:
        """Return the seconds that the command takes by itself."""
        began = time.perf_counter()
        subprocess.run([sys.executable, str(self._script)], check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - began
