"""PyTorch's profiler: a Chrome trace of some training steps."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from hypergauge.core.calls import Call
from hypergauge.scheduler.profilers.base import Profiler
from hypergauge.scheduler.profilers.reports.stacks import Phases, Recording

__all__ = ["Torch"]

_LAUNCHER = Path(__file__).with_name("torch_trace.py")
_LOOK = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"


class Torch(Profiler):
    """PyTorch's profiler, which starts the script through `torch_trace` in the run's own interpreter."""

    name = "torch"
    report = "torch_trace.json.gz"
    install = "-m pip install torch"

    def problem(self, python: str) -> str | None:
        """Return the problem if the run's interpreter has no PyTorch."""
        return None if _has_torch(python) else f"{python} has no package torch: {python} {self.install}"

    def container_problem(self) -> str | None:
        """Return ``None``: the run itself tells whether its image has PyTorch."""
        return None

    def files(self) -> list[Path]:
        """Return the launcher and what it loads."""
        return [_LAUNCHER, _LAUNCHER.with_name("hidden_handler.py"), _LAUNCHER.parents[2] / "client" / "guard.py"]

    def wrap(self, words: Sequence[str], folder: Path, options: Mapping[str, str]) -> list[str]:
        """Return the command line, with the launcher between interpreter and script."""
        del options  # it has none
        return [words[0], str(_LAUNCHER), str(folder / self.report), *words[1:]]

    def calls(self, report: Path) -> list[Call]:
        """See `Profiler.calls`."""
        from hypergauge.scheduler.profilers.reports.kineto import read_calls

        return read_calls(report)

    def read(self, report: Path, phases: Phases) -> Recording:
        """See `Profiler.read`."""
        from hypergauge.scheduler.profilers.reports.kineto import read_trace

        return read_trace(report, phases)


@functools.cache
def _has_torch(python: str) -> bool:
    if not Path(python).is_file():  # the environment is not created yet
        return True
    try:
        return subprocess.run([python, "-c", _LOOK], capture_output=True, timeout=60, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
